-- The ledger: what each batch stored, what became of the events of each stream, and sums of both.

CREATE TABLE freshet.batch (
    batch_no         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pipeline         text NOT NULL REFERENCES freshet.pipeline (name),
    epoch            bigint NOT NULL,
    state            text NOT NULL DEFAULT 'started' CHECK (state IN ('started', 'committed', 'abandoned')),
    started_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    closed_at        timestamptz,
    facts            bigint NOT NULL DEFAULT 0,
    shed             bigint NOT NULL DEFAULT 0,
    unmatched        bigint NOT NULL DEFAULT 0,
    rejected         bigint NOT NULL DEFAULT 0,
    duplicates       bigint NOT NULL DEFAULT 0,
    event_latency    bigint[],
    arrival_latency  bigint[],
    statistics       jsonb NOT NULL DEFAULT '{}',
    validation_id    bigint,
    arrived          bigint,
    placed           bigint,
    read_as          text
);
CREATE INDEX batch_of_pipeline ON freshet.batch (pipeline, batch_no);
CREATE INDEX batch_open ON freshet.batch (pipeline) WHERE state = 'started';
CREATE INDEX batch_unvalidated ON freshet.batch (pipeline, batch_no)
    WHERE validation_id IS NULL AND state <> 'started' AND facts > 0;
COMMENT ON TABLE freshet.batch IS
    'Batch ledger. A batch that was cut off stays open, and the next driver goes on with it. Abandoned ones '
    'are from before: they count what their transactions had committed.';
COMMENT ON COLUMN freshet.batch.duplicates IS
    'Stream tuples whose event id was already stored: sent twice, or seen again in a replayed batch.';
COMMENT ON COLUMN freshet.batch.event_latency IS
    'Histogram of event time to commit, one count per bucket of spark_jobs/warehouse/latency.py.';
COMMENT ON COLUMN freshet.batch.validation_id IS 'The validation that looked at its facts; null: none yet.';
COMMENT ON COLUMN freshet.batch.arrived IS
    'Records of its ranges, counted where they were read: equal to what is stored and the duplicates. Null '
    'in batches that were closed before records were counted.';
COMMENT ON COLUMN freshet.batch.placed IS
    'Of correlated streams: events that found a place, by what the batch says of each stream; those that wait '
    'in the state among them. Null where one stream is loaded: then facts and held tuples are these events.';
COMMENT ON COLUMN freshet.batch.read_as IS
    'Digest of how the definition says that records look; several: of more than one, null: not known.';

CREATE TABLE freshet.batch_part (
    part_id          uuid PRIMARY KEY,
    batch_no         bigint NOT NULL REFERENCES freshet.batch (batch_no) ON DELETE CASCADE,
    facts            bigint NOT NULL,
    shed             bigint NOT NULL,
    unmatched        bigint NOT NULL,
    rejected         bigint NOT NULL,
    duplicates       bigint NOT NULL,
    event_latency    bigint[] NOT NULL,
    arrival_latency  bigint[] NOT NULL,
    stream           text,
    joined           bigint,
    sketch           bytea,
    dropped          text[] NOT NULL DEFAULT '{}'
);
CREATE INDEX batch_part_of_batch ON freshet.batch_part (batch_no);
COMMENT ON TABLE freshet.batch_part IS
    'What one loading transaction of an open batch stored; summed into the batch when that is closed.';
COMMENT ON COLUMN freshet.batch_part.part_id IS
    'Made by the loader: tells it, after it lost its connection, whether its transaction was committed.';
COMMENT ON COLUMN freshet.batch_part.stream IS
    'Of an accumulating fact: whose parts are counted. A transaction has a row for each stream.';
COMMENT ON COLUMN freshet.batch_part.joined IS
    'Parts that came into a fact; facts are the rows that they made. Parts that had waited until then are '
    'taken off from unmatched.';
COMMENT ON COLUMN freshet.batch_part.sketch IS 'Of the event ids that it stored.';

CREATE TABLE freshet.batch_stream (
    batch_no      bigint NOT NULL REFERENCES freshet.batch (batch_no) ON DELETE CASCADE,
    stream        text COLLATE "C" NOT NULL,
    reached       timestamptz,
    newest        timestamptz,
    last_arrival  timestamptz,
    idle          boolean NOT NULL DEFAULT false,
    arrived       bigint NOT NULL DEFAULT 0,
    furthest      timestamptz,
    PRIMARY KEY (batch_no, stream)
);
COMMENT ON TABLE freshet.batch_stream IS 'How far each correlated stream had come, and how much was read of it.';
COMMENT ON COLUMN freshet.batch_stream.reached IS
    'Noted when the batch opens: events that happened before are late for it; null: none is. The state lets '
    'go of what none of the other streams can meet any more.';
COMMENT ON COLUMN freshet.batch_stream.newest IS
    'The largest event time so far, times in the future cut down to the clock and the lateness.';
COMMENT ON COLUMN freshet.batch_stream.last_arrival IS 'When an event of the stream was read last.';
COMMENT ON COLUMN freshet.batch_stream.idle IS 'Whether the stream was silent, and followed the others.';
COMMENT ON COLUMN freshet.batch_stream.furthest IS
    'The largest event time up to this batch, in the future or not; null: of a former version.';

CREATE TABLE freshet.batch_fate (
    batch_no  bigint NOT NULL REFERENCES freshet.batch (batch_no) ON DELETE CASCADE,
    stream    text COLLATE "C" NOT NULL,
    fate      text COLLATE "C" NOT NULL,
    tuples    bigint NOT NULL,
    PRIMARY KEY (batch_no, stream, fate)
);
COMMENT ON TABLE freshet.batch_fate IS
    'What became of the events of each correlated stream in a batch; no row: of none. Of all batches together, '
    'arrived = joined + waiting after the last one + the expired + the rejected ones + duplicates.';
COMMENT ON COLUMN freshet.batch_fate.fate IS
    'A name of spark_jobs/definition/fates.py, which tells what it adds up to.';

-- Sums of the ledger by minute: what charts and percentiles of hours and days are made of.
CREATE TABLE freshet.ledger_minute (
    pipeline         text NOT NULL REFERENCES freshet.pipeline (name),
    minute           timestamptz NOT NULL,
    batches          bigint NOT NULL,
    facts            bigint NOT NULL,
    shed             bigint NOT NULL,
    unmatched        bigint NOT NULL,
    rejected         bigint NOT NULL,
    duplicates       bigint NOT NULL,
    probes           bigint NOT NULL,
    hits             bigint NOT NULL,
    event_latency    bigint[] NOT NULL,
    arrival_latency  bigint[] NOT NULL,
    stage_seconds    jsonb NOT NULL DEFAULT '{}',
    arrived          bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (pipeline, minute)
);

-- Sums of what retention has deleted from the ledger, so that the balance still holds.
CREATE TABLE freshet.ledger_pruned (
    pipeline       text PRIMARY KEY REFERENCES freshet.pipeline (name),
    batches        bigint NOT NULL DEFAULT 0,
    facts          bigint NOT NULL DEFAULT 0,
    shed           bigint NOT NULL DEFAULT 0,
    unmatched      bigint NOT NULL DEFAULT 0,
    rejected       bigint NOT NULL DEFAULT 0,
    duplicates     bigint NOT NULL DEFAULT 0,
    probes         bigint NOT NULL DEFAULT 0,
    hits           bigint NOT NULL DEFAULT 0,
    event_latency  bigint[],
    arrived        bigint NOT NULL DEFAULT 0,
    placed         bigint NOT NULL DEFAULT 0
);

CREATE TABLE freshet.stream_pruned (
    pipeline  text COLLATE "C" NOT NULL REFERENCES freshet.pipeline (name),
    stream    text COLLATE "C" NOT NULL,
    arrived   bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (pipeline, stream)
);
COMMENT ON TABLE freshet.stream_pruned IS
    'Sums of freshet.batch_stream over the batches that retention has deleted.';

CREATE TABLE freshet.fate_pruned (
    pipeline  text COLLATE "C" NOT NULL REFERENCES freshet.pipeline (name),
    stream    text COLLATE "C" NOT NULL,
    fate      text COLLATE "C" NOT NULL,
    tuples    bigint NOT NULL,
    PRIMARY KEY (pipeline, stream, fate)
);
COMMENT ON TABLE freshet.fate_pruned IS
    'Sums of freshet.batch_fate over the batches that retention has deleted, and what reprocessing has moved.';

CREATE TABLE freshet.id_sketch (
    sketch_id  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pipeline   text COLLATE "C" NOT NULL REFERENCES freshet.pipeline (name),
    batch_no   bigint NOT NULL,
    sketch     bytea,
    dropped    text[] NOT NULL DEFAULT '{}'
);
CREATE INDEX id_sketch_of_batch ON freshet.id_sketch (pipeline, batch_no);
CREATE INDEX id_sketch_unknown ON freshet.id_sketch (pipeline, batch_no) WHERE sketch IS NULL;
COMMENT ON TABLE freshet.id_sketch IS
    'The event ids that have to be stored with a number, as a fact or held, as sums of linear sketches '
    '(spark_jobs/sketches/id_sketch.py): of a number there may be several. A batch adds its own when it is '
    'closed; a reprocessing run takes what it makes facts of from the batch that held it.';
COMMENT ON COLUMN freshet.id_sketch.batch_no IS
    'Batch or reprocessing run; 0: all those together that retention has deleted from the ledger.';
COMMENT ON COLUMN freshet.id_sketch.sketch IS 'Null: not known what arrived.';
COMMENT ON COLUMN freshet.id_sketch.dropped IS
    'Event ids that came again, and were dropped because they were stored: those of the least hash codes.';

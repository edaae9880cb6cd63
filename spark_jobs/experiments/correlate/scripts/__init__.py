"""What one would write instead: some thirty lines each, exactly once by markers of the files that are loaded."""

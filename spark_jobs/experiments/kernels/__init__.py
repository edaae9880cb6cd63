"""Speed of the joins' own code on one core: what is left when reading R costs nothing."""

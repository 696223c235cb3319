"""Measures c2step against Caffe2 itself and against what people use instead; see `scripts/bench --help`."""

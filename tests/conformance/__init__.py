"""Conformance: onnx's own backend tests and exports of common models, on stock, faithful and repaired imports."""

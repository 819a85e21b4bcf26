"""The ground of the Python engine: scheduled events, its outputs, and the state that all elements share."""

"""Questions asked of captures and models: how long operators take, what channels do, what quantising costs."""

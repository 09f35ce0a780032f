"""The words: measures, ids, rows, tables, World, events, actions, plan, reasons, errors."""

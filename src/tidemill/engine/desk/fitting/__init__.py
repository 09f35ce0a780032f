"""Fitting at the compiled desk: a gang on nodes, through trees and scores."""

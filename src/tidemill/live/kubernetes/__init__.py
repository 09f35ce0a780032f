"""What `kubectl get … -o json` prints, as a cluster's past. Wire formats are here and nowhere else.

``objects`` reads files, ``nodes``, ``pods``, ``owners``, ``groups``, ``kueue`` and ``dra`` one
family of objects each, ``reasons`` says why something waits, ``translate`` makes attempts of it.
"""

"""Faults in numbers, and afterwards a look at everything: ``python -m chaos``.

``model``      what should be, by what its users did: pure
``history``    what must never be seen on the way, by everything that was seen: pure
``faults``     what a fault is
``api_faults``, ``pod_faults``, ``process_faults``, ``engine_faults``      the faults
``scene``      what a storm has: cluster, operator, the proxies in between
``pods``, ``containers``                                                   the two backends
``users``      what Sandboxes go through meanwhile
``witness``    sees every version of every object, by ``following``
``storm``      one storm, from calm to calm
``storms``     which there are
``report``     their figures
"""

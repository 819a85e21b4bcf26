"""Linux's own opa_vnic on a port of the fabric: user-mode Linux, how it is built and what joins it to a port."""

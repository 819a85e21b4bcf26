"""The datapaths between two hosts, beside other ways to connect two hosts: `opavnic bench datapath`."""

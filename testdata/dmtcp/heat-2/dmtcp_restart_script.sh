#!/bin/bash

given_ckpt_files=" /scratch/heat/ckpt_heat_7f0100-42000-66abe63e.dmtcp /scratch/heat/ckpt_heat_7f0100-43000-66abe63e.dmtcp /scratch/heat/ckpt_mpiexec_7f0100-40000-66abe63e.dmtcp /scratch/heat/ckpt_hydra_pmi_proxy_7f0100-41000-66abe63e.dmtcp"

exec dmtcp_restart $given_ckpt_files

"""`gpudoctor preflight`: agents, one for each task of a launcher, and the coordinator that has them measure."""

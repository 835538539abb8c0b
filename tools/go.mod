module nstance.dev/tools

go 1.26.0

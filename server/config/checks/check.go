package checks

import (
	"nstance.dev/server/config/dryrun"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/config/jsonc"
)

// Document looks at what the values of a decoded document mean, and goes on after each
// problem, so that all of them are found. The problems given are those of decoding; places
// are where the values stand. Problems and warnings are in order of place, and the warnings
// include those of places.
func Document(cfg *effective.Config, places *jsonc.Document, opts Options, problems jsonc.Problems) (all, warnings jsonc.Problems) {
	r := newReport(cfg, places, opts, problems)
	t := dryrun.New(cfg)
	var root jsonc.Path
	server, machines, owners := serverCheck{r}, machineCheck{r, t}, ownerCheck{r, t}
	server.server(root.Key("server"))
	server.tenants(root.Key("tenants"))
	machines.loadBalancers(root.Key("load_balancers"))
	machines.images(root.Key("images"))
	machines.certificates(root.Key("certificates"))
	machines.defaults(root.Key("defaults"))
	machines.templates(root.Key("templates"))
	machines.groups(root.Key("groups"))
	owners.ownership()
	machines.rendering()
	warnings = append(places.Warnings(), r.warnings...)
	r.problems.Sort()
	warnings.Sort()
	return r.problems, warnings
}

package checks

import (
	"errors"

	"nstance.dev/server/config/document"
	"nstance.dev/server/config/dryrun"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/config/jsonc"
	"nstance.dev/server/config/texttemplate"
)

// rendering tries all templates of each static group with the variables that
// the group really has, and looks at its arguments as a whole.
func (c machineCheck) rendering() {
	sorted(c.cfg.Groups, func(tenant string, groups map[string]document.Group) {
		sorted(groups, func(key string, g document.Group) {
			if _, ok := c.cfg.Templates[g.Template]; !ok {
				return
			}
			merged := c.cfg.Lay(effective.Layers{Tenant: tenant, Key: key, Template: g.Template, Static: &g})
			c.demandMerged(tenant, key, g.Template, merged)
			if err := c.cfg.Rules.CheckTogether(merged.Args); err != nil {
				c.add(c.origin(tenant, key, g.Template, []any{"args"}), "for group "+tenant+"/"+key+": "+err.Error(),
					"add it to args of the group, its template or defaults")
			}
			for _, failed := range c.trials.Group(merged, g.Args == nil) {
				remedy := "set the variable in vars of the group, its template or defaults"
				if !errors.As(failed.Err, new(*texttemplate.Error)) {
					remedy = "change what is written here, or the variables that it is made of"
				}
				c.add(c.origin(tenant, key, g.Template, failed.Place), "for group "+tenant+"/"+key+": "+dryrun.Message(failed.Err), remedy)
			}
		})
	})
}

// origin finds where in the document the part of a group comes from: the
// highest layer that has it.
func (c machineCheck) origin(tenant, key, template string, place []any) jsonc.Path {
	var root jsonc.Path
	layers := []jsonc.Path{root.Key("groups").Key(tenant).Key(key), root.Key("templates").Key(template), root.Key("defaults")}
	if place[0] == "certificates" {
		layers = []jsonc.Path{root}
	}
	for _, path := range layers {
		for _, step := range place {
			if i, ok := step.(int); ok {
				path = path.Index(i)
			} else {
				path = path.Key(step.(string))
			}
		}
		if c.doc.Has(path) {
			return path
		}
	}
	return layers[0]
}

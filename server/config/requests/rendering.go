package requests

import (
	"fmt"

	"nstance.dev/server/config/dryrun"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/config/groupfile"
	"nstance.dev/server/config/jsonc"
)

// checkRendering tries the templates of a group or an instance that a caller of
// the API asks for. What fails is most often a variable that is missing.
func checkRendering(cfg *effective.Config, g *effective.Group) error {
	failed := dryrun.New(cfg).Group(g, false)
	if len(failed) == 0 {
		return nil
	}
	field := "vars"
	if failed[0].Place[0] == "args" {
		field = "args"
	}
	place := ""
	for _, step := range failed[0].Place {
		place += fmt.Sprintf("/%v", step)
	}
	return &groupfile.InvalidError{Field: field, Msg: jsonc.Short(place[1:]) + " does not render: " + dryrun.Message(failed[0].Err)}
}

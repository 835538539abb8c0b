package demandsim

import (
	"fmt"

	"nstance.dev/e2e/sim"
)

// Parse reads a plan that a person wrote, as [sim.ParseStory] says.
func Parse(text string) (sim.Plan, error) {
	return sim.ParseStory(text, defaults, func(verb string, _ []string) error {
		if _, known := verbs[verb]; !known {
			return fmt.Errorf("there is no verb %q", verb)
		}
		return nil
	})
}

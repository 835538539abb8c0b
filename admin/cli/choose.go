package cli

import (
	"io"
	"slices"

	"github.com/spf13/cobra"

	"nstance.dev/admin/output"
)

// choice says which items of a list are shown.
type choice struct {
	selector output.Selector
	statuses []string // empty: all
}

// addChoiceFlags gives a command that prints a list the flags that choose from it.
func addChoiceFlags(cmd *cobra.Command, statuses string) *choice {
	c := &choice{}
	cmd.Flags().VarP(&c.selector, "selector", "l", "only those with such fields of the JSON: `FIELD=VALUE,FIELD!=VALUE,...`, also of objects in it (vars.region=eu)")
	cmd.Flags().StringSliceVar(&c.statuses, "status", nil, "only those with one of these `STATUSES`: "+statuses)
	return c
}

// keep reports whether an item is among those that are shown.
func keep[T any](c *choice, item output.Item[T], statuses func(T) []string) (bool, error) {
	if len(c.statuses) > 0 && !slices.ContainsFunc(statuses(item.Message), func(s string) bool { return slices.Contains(c.statuses, s) }) {
		return false, nil
	}
	return output.Matches(c.selector, item)
}

// printChosen prints those of a list that are shown, as printList does.
func printChosen[T any](w io.Writer, format output.Format, view output.View[T], items []output.Item[T], err error, c *choice, statuses func(T) []string) error {
	if err != nil && len(items) == 0 {
		return err
	}
	var shown []output.Item[T]
	for _, item := range items {
		ok, matchErr := keep(c, item, statuses)
		if matchErr != nil {
			return matchErr
		}
		if ok {
			shown = append(shown, item)
		}
	}
	if printErr := output.List(w, format, view, shown); printErr != nil {
		return printErr
	}
	return err
}

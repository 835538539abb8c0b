package cli

import (
	"strings"

	"github.com/spf13/cobra"
)

// operand is an argument as the usage line of a command names it: NAME, NAME...,
// [NAME] or [NAME...].
type operand struct {
	name     string
	optional bool
	many     bool
}

// operands are the arguments in a usage line. Flags end them.
func operands(use string) []operand {
	var all []operand
	for _, word := range strings.Fields(use)[1:] {
		if strings.HasPrefix(strings.TrimPrefix(word, "["), "-") {
			break
		}
		o := operand{optional: strings.HasPrefix(word, "[")}
		word = strings.Trim(word, "[]")
		o.many = strings.HasSuffix(word, "...")
		o.name = strings.TrimSuffix(word, "...")
		all = append(all, o)
	}
	return all
}

// usedArgs takes the arguments that the usage line of a command names, and says
// which one is missing or too much.
func usedArgs(cmd *cobra.Command, args []string) error {
	wanted := operands(cmd.Use)
	least, many := 0, false
	for _, o := range wanted {
		if !o.optional {
			least++
		}
		many = many || o.many
	}
	usage := strings.TrimSuffix(cmd.UseLine(), " [flags]")
	switch {
	case len(args) < least:
		is := "is"
		if least-len(args) > 1 {
			is = "are"
		}
		return usagef("%s %s missing; usage: %s", names(wanted[len(args):least]), is, usage)
	case len(args) > len(wanted) && !many && len(wanted) == 0:
		return usagef("argument %s is too much: the command takes none; usage: %s", quote(args[0]), usage)
	case len(args) > len(wanted) && !many:
		return usagef("argument %s is too much after %s; usage: %s", quote(args[len(wanted)]), names(wanted), usage)
	}
	return nil
}

// names lists arguments as a sentence does.
func names(all []operand) string {
	var list []string
	for _, o := range all {
		list = append(list, o.name)
	}
	if len(list) < 2 {
		return strings.Join(list, "")
	}
	return strings.Join(list[:len(list)-1], ", ") + " and " + list[len(list)-1]
}

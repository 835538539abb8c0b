package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// Program is one of the operator's programs, by the settings that it has.
type Program struct {
	name, summary, more string
	table               []setting
}

// Operator is nstance-operator.
var Operator = Program{name: "nstance-operator", summary: "joins Nstance to Kubernetes and Cluster API", more: tracesHelp, table: table}

// ParseFlags reads the arguments and the environment of nstance-operator, as [Program.ParseFlags] does.
func ParseFlags(args []string, getenv func(string) string, podNamespace string) (Settings, error) {
	return Operator.ParseFlags(args, getenv, podNamespace)
}

// ParseFlags reads the arguments after the program's name and the environment. A flag is
// stronger than a variable, and a variable than the default. podNamespace is that of the
// Pod, "" outside of one. The error is [ErrHelp], [ErrVersion] or a [*FlagError]. Settings
// that the program does not have are left at zero.
func (p Program) ParseFlags(args []string, getenv func(string) string, podNamespace string) (Settings, error) {
	flags, values := p.flagSet()
	var problems []string
	if err := flags.Parse(args); errors.Is(err, pflag.ErrHelp) {
		return Settings{}, ErrHelp
	} else if err != nil {
		problems = append(problems, err.Error())
	}
	if flags.Changed("version") {
		return Settings{}, ErrVersion
	}
	problems = append(problems, strays(flags, args)...)

	var s Settings
	for _, t := range p.table {
		value := t.fallback
		if t.env != "" && getenv(t.env) != "" {
			value = getenv(t.env)
		}
		if t.flag != "" && flags.Changed(t.flag) {
			value = values[t.flag].String()
		}
		if err := t.set(&s, value); err != nil {
			problems = append(problems, fmt.Sprintf("%s: %v", t.name(), err))
		}
	}
	switch {
	case len(s.OnDemandNamespaces) == 0: // whoever may make a Pod could start machines
		s.OnDemand = OnDemandOff
	case slices.Contains(s.OnDemandNamespaces, AllNamespaces):
		s.OnDemandNamespaces = nil
	}
	if s.Namespace == "" {
		s.Namespace = podNamespace
	}
	if s.Namespace == "" {
		problems = append(problems, "--namespace: it is not known; set the flag or NSTANCE_NAMESPACE")
	}
	if s.Kubeconfig != "" && !flags.Changed("namespace") && getenv("NSTANCE_NAMESPACE") == "" {
		problems = append(problems, "--namespace: it must be set together with --kubeconfig")
	}
	if len(problems) > 0 {
		return Settings{}, &FlagError{problems}
	}
	return s, nil
}

// flagSet has all flags as texts: what is wrong with a value is said by the table, so that
// one mistake does not hide the next.
func (p Program) flagSet() (*pflag.FlagSet, map[string]pflag.Value) {
	flags := pflag.NewFlagSet(p.name, pflag.ContinueOnError)
	flags.Usage = func() {}
	flags.SortFlags = false
	flags.ParseErrorsAllowlist.UnknownFlags = true
	values := map[string]pflag.Value{}
	for _, t := range p.table {
		if t.flag == "" {
			continue
		}
		values[t.flag] = &flagValue{text: t.fallback, repeated: t.repeated}
		flags.Var(values[t.flag], t.flag, t.meaning)
		if t.boolean {
			flags.Lookup(t.flag).NoOptDefVal = "true"
		}
	}
	flags.Bool("version", false, "print the version and exit")
	return flags, values
}

// flagValue is the text of a flag.
type flagValue struct {
	text     string
	repeated bool // what is given again is added, after a comma
	given    bool
}

// String implements [pflag.Value].
func (v *flagValue) String() string { return v.text }

// Set implements [pflag.Value].
func (v *flagValue) Set(text string) error {
	if v.repeated && v.given {
		text = v.text + "," + text
	}
	v.text, v.given = text, true
	return nil
}

// Type implements [pflag.Value].
func (v *flagValue) Type() string { return "string" }

// strays names the arguments that are no flags of ours.
func strays(flags *pflag.FlagSet, args []string) []string {
	var problems []string
	for _, arg := range flags.Args() {
		problems = append(problems, fmt.Sprintf("unexpected argument %q", arg))
	}
	for _, arg := range args {
		name, isFlag := strings.CutPrefix(arg, "-")
		if !isFlag || arg == "-" {
			continue
		}
		name, _, _ = strings.Cut(strings.TrimPrefix(name, "-"), "=")
		if name != "" && flags.Lookup(name) == nil {
			problems = append(problems, fmt.Sprintf("unknown flag --%s", name))
		}
	}
	return problems
}

// tracesHelp says how traces are turned on: as at the servers, by variables that are not ours.
const tracesHelp = `
Traces are off unless the standard variables of OpenTelemetry are set:
  OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT
        turns them on; OTEL_EXPORTER_OTLP_PROTOCOL is http/protobuf (default) or grpc
`

// Usage is the help.
func (p Program) Usage() string {
	flags, _ := p.flagSet()
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s.\n\nUsage:\n  %s [flags]\n\nFlags:\n", p.name, p.summary, p.name)
	b.WriteString(flags.FlagUsagesWrapped(100))
	b.WriteString("\nEnvironment variables:\n")
	for _, t := range p.table {
		if t.env == "" {
			continue
		}
		fmt.Fprintf(&b, "  %s\n        %s", t.env, strings.ReplaceAll(t.meaning, "`", ""))
		if t.fallback != "" {
			fmt.Fprintf(&b, " (default %s)", t.fallback)
		}
		b.WriteString("\n")
	}
	b.WriteString(p.more)
	return b.String()
}

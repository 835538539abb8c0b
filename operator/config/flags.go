package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// ParseFlags reads the arguments after the program's name and the environment. A flag is
// stronger than a variable, and a variable than the default. podNamespace is that of the
// Pod, "" outside of one. The error is [ErrHelp], [ErrVersion] or an [*InvalidError].
func ParseFlags(args []string, getenv func(string) string, podNamespace string) (Settings, error) {
	flags, values := flagSet()
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
	for _, t := range table {
		value := t.fallback
		if t.env != "" && getenv(t.env) != "" {
			value = getenv(t.env)
		}
		if t.flag != "" && flags.Changed(t.flag) {
			value = *values[t.flag]
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
func flagSet() (*pflag.FlagSet, map[string]*string) {
	flags := pflag.NewFlagSet("nstance-operator", pflag.ContinueOnError)
	flags.Usage = func() {}
	flags.SortFlags = false
	flags.ParseErrorsAllowlist.UnknownFlags = true
	values := map[string]*string{}
	for _, t := range table {
		if t.flag == "" {
			continue
		}
		values[t.flag] = flags.String(t.flag, t.fallback, t.meaning)
		if t.boolean {
			flags.Lookup(t.flag).NoOptDefVal = "true"
		}
	}
	flags.Bool("version", false, "print the version and exit")
	return flags, values
}

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
func Usage() string {
	flags, _ := flagSet()
	var b strings.Builder
	b.WriteString(`nstance-operator joins Nstance to Kubernetes and Cluster API.

Usage:
  nstance-operator [flags]

Flags:
`)
	b.WriteString(flags.FlagUsagesWrapped(100))
	b.WriteString("\nEnvironment variables:\n")
	for _, t := range table {
		if t.env == "" {
			continue
		}
		fmt.Fprintf(&b, "  %s\n        %s", t.env, strings.ReplaceAll(t.meaning, "`", ""))
		if t.fallback != "" {
			fmt.Fprintf(&b, " (default %s)", t.fallback)
		}
		b.WriteString("\n")
	}
	b.WriteString(tracesHelp)
	return b.String()
}

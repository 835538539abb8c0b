package cli

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"nstance.dev/admin/contexts"
	"nstance.dev/admin/output"
)

func newConfigCommand(env *Env) *cobra.Command {
	cmd := newParentCommand("config", "Choose which cluster commands talk to",
		newConfigGetContextsCommand(env), newConfigUseContextCommand(env), newConfigViewCommand(env), newConfigCurrentContextCommand(env))
	cmd.Long = `Choose which cluster commands talk to, and as whom. A configuration file holds one
context per cluster, and says which of them is current:

  current_context: prod
  contexts:
    prod:
      cluster_id: prod
      tenant: default
      identity_dir: prod-identity
      servers: {us-1a: "10.0.0.10:8993", us-1b: "10.0.1.10:8993"}
    dev: {file: /src/nstance/.dev/admin.json}

It is nstance/admin.yaml in XDG_CONFIG_HOME or ~/.config, unless --config or
NSTANCE_ADMIN_CONFIG names another. Relative paths start at its folder. --context
and NSTANCE_ADMIN_CONTEXT choose a context for one command or one shell; a value that
contains a slash or ends in .json is the file of a context.

The configurations of servers are the subject of "shard config".`
	for _, sub := range newShardConfigCommand(env).Commands() {
		if sub.Name() == "plan" { // it never stood here
			continue
		}
		cmd.AddCommand(renamed(env, sub, "shard config "+sub.Name()))
	}
	return cmd
}

// renamed keeps a command working under its old name: it is in no list, and says
// what it is called now.
func renamed(env *Env, cmd *cobra.Command, now string) *cobra.Command {
	cmd.Hidden = true
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		fmt.Fprintf(env.Err, "note: '%s' is now 'nstance-admin %s'\n", cmd.CommandPath(), now)
		return run(cmd, args)
	}
	return cmd
}

// addConfigFlag gives a command the flag that names the configuration file.
func addConfigFlag(cmd *cobra.Command) *string {
	path := cmd.Flags().String("config", "", configFlagHelp)
	_ = cmd.MarkFlagFilename("config", "yaml", "yml")
	return path
}

const configFlagHelp = "configuration `FILE` with contexts (" + contexts.EnvConfig + "; default ~/.config/nstance/admin.yaml)"

// contextRow is a context as the list of them shows it.
type contextRow struct {
	Current     bool     `json:"current"`
	Name        string   `json:"name"`
	ClusterID   string   `json:"cluster_id"`
	Tenant      string   `json:"tenant"`
	Shards      []string `json:"shards"`
	IdentityDir string   `json:"identity_dir"`
	Problem     string   `json:"problem,omitempty"`
}

func newConfigGetContextsCommand(env *Env) *cobra.Command {
	var format output.Format
	cmd := &cobra.Command{
		Use:     "get-contexts",
		Aliases: []string{"contexts"},
		Short:   "List the contexts of the configuration file",
		Example: `  nstance-admin config get-contexts
  nstance-admin config get-contexts -o name`,
		Args:              usedArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	path := addConfigFlag(cmd)
	addListFlags(cmd, &format)
	cmd.RunE = func(*cobra.Command, []string) error {
		config, err := contexts.Load(*path, env.Getenv)
		if err != nil {
			return err
		}
		if len(config.Contexts) == 0 && config.Path() != "" {
			fmt.Fprintf(env.Err, "%s has no contexts; 'nstance-admin config --help' shows one\n", config.Path())
		}
		var items []output.Item[contextRow]
		for _, name := range config.Names() {
			items = append(items, output.Item[contextRow]{Message: rowOf(config, name)})
		}
		return output.List(env.Out, format, contextView(), items)
	}
	return cmd
}

func rowOf(config *contexts.Config, name string) contextRow {
	row := contextRow{Name: name, Current: name == config.CurrentContext, Shards: []string{}}
	c, err := config.Get(name)
	if err != nil {
		row.Problem = err.Error()
		return row
	}
	row.ClusterID, row.Tenant, row.IdentityDir = c.ClusterID, c.Tenant, c.IdentityDir
	row.Shards = append(row.Shards, slices.Sorted(maps.Keys(c.Servers))...)
	return row
}

func contextView() output.View[contextRow] {
	type column = output.Column[contextRow]
	return output.View[contextRow]{
		Name: func(r contextRow) string { return r.Name },
		Columns: []column{
			{Header: "CURRENT", Value: func(r contextRow) string {
				if r.Current {
					return "*"
				}
				return ""
			}},
			{Header: "NAME", Value: func(r contextRow) string { return r.Name }},
			{Header: "CLUSTER", Value: func(r contextRow) string { return r.ClusterID }},
			{Header: "TENANT", Value: func(r contextRow) string { return r.Tenant }},
			{Header: "SHARDS", Value: func(r contextRow) string { return strings.Join(r.Shards, ",") }},
			{Header: "PROBLEM", Value: func(r contextRow) string { return r.Problem }},
			{Header: "IDENTITY_DIR", Wide: true, Value: func(r contextRow) string { return r.IdentityDir }},
		},
	}
}

func newConfigUseContextCommand(env *Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "use-context NAME",
		Aliases: []string{"use"},
		Short:   "Make a context the current one",
		Long: `Make a context the current one: commands that name none talk to its cluster. The
line current_context of the configuration file is written; the rest is left as it is.`,
		Example: `  nstance-admin config use-context prod`,
		Args:    usedArgs,
	}
	path := addConfigFlag(cmd)
	cmd.ValidArgsFunction = completeContexts(env, path)
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		config, err := contexts.Load(*path, env.Getenv)
		if err != nil {
			return err
		}
		if err := config.Use(args[0]); err != nil {
			return err
		}
		fmt.Fprintf(env.Out, "current context is %s\n", args[0])
		return nil
	}
	return cmd
}

// completeContexts offers the names of contexts, with their clusters.
func completeContexts(env *Env, path *string) completion {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		config, err := contexts.Load(*path, env.Getenv)
		if err != nil || len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var names []string
		for _, name := range config.Names() {
			names = append(names, cobra.CompletionWithDesc(name, "cluster "+cmp.Or(rowOf(config, name).ClusterID, "unknown")))
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

func newConfigViewCommand(env *Env) *cobra.Command {
	var format output.Format
	var minify bool
	var context string
	cmd := &cobra.Command{
		Use:   "view",
		Short: "Show the configuration file, or the context in use",
		Long: `Show the configuration file with absolute paths. With --minify or --context show
one context as commands use it, wherever it stands.`,
		Example: `  nstance-admin config view
  nstance-admin config view --minify
  nstance-admin config view --context prod -o json`,
		Args:              usedArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	path := addConfigFlag(cmd)
	addOutputFlag(cmd, &format, output.YAML, output.JSON)
	cmd.Flags().BoolVar(&minify, "minify", false, "only the context in use")
	cmd.Flags().StringVar(&context, "context", "", "only this context: a `NAME`, or a file")
	_ = cmd.RegisterFlagCompletionFunc("context", completeContexts(env, path))
	cmd.RunE = func(*cobra.Command, []string) error {
		if minify || context != "" {
			selected, err := contexts.Select(*path, context, env.Getenv)
			if err != nil {
				return err
			}
			if selected.File == "" {
				return errNoContext()
			}
			return output.Value(env.Out, format, selected.Context)
		}
		config, err := contexts.Load(*path, env.Getenv)
		if err != nil {
			return err
		}
		return output.Value(env.Out, format, config)
	}
	return cmd
}

func newConfigCurrentContextCommand(env *Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "current-context",
		Short: "Show which context commands use",
		Long: `Show which context commands use: the one that NSTANCE_ADMIN_CONTEXT names, or else the
current one of the configuration file. A context in a file of its own is shown by its path.`,
		Example:           `  nstance-admin config current-context`,
		Args:              usedArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	path := addConfigFlag(cmd)
	cmd.RunE = func(*cobra.Command, []string) error {
		selected, err := contexts.Select(*path, "", env.Getenv)
		if err != nil {
			return err
		}
		if selected.File == "" {
			return errNoContext()
		}
		fmt.Fprintln(env.Out, cmp.Or(selected.Name, selected.File))
		return nil
	}
	return cmd
}

func errNoContext() error {
	return errors.New("no context is current: choose one with 'nstance-admin config use-context NAME', or set NSTANCE_ADMIN_CONTEXT")
}

package cli

import (
	"cmp"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"nstance.dev/admin/output"
	"nstance.dev/admin/tokens"
	"nstance.dev/protos/identity"
)

func newTokenCommand(env *Env) *cobra.Command {
	cmd := newParentCommand("token", "Make, list and revoke tokens for the HTTP API",
		newTokenCreateCommand(env), newTokenListCommand(env), newTokenRevokeCommand(env))
	cmd.Long = `Make, list and revoke tokens for the HTTP API ("serve"). They are kept in a file that
holds hashes of them; a serving process sees a change of it with the next call.`
	return cmd
}

// addTokenFileFlag gives a command the flag that names the file of tokens.
func addTokenFileFlag(cmd *cobra.Command, path *string) {
	cmd.Flags().StringVar(path, "token-file", "", "`FILE` of tokens ("+identity.EnvAdminTokenFile+")")
}

func tokenFile(env *Env, path string) (*tokens.File, error) {
	if path = cmp.Or(path, env.Getenv(identity.EnvAdminTokenFile)); path == "" {
		return nil, usagef("name the file of tokens with --token-file or %s", identity.EnvAdminTokenFile)
	}
	return tokens.Open(path, env.Now), nil
}

func newTokenCreateCommand(env *Env) *cobra.Command {
	var path, access string
	var t tokens.Token
	var good time.Duration
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Make a token, and print it once",
		Long: `Make a token for one tenant and for reading or writing, and print it. It is not kept:
whoever loses it revokes it and makes another one.`,
		Example:           `  nstance-admin token create --token-file tokens.json --tenant default --access read --note dashboard`,
		Args:              usedArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(*cobra.Command, []string) error {
			file, err := tokenFile(env, path)
			if err != nil {
				return err
			}
			t.Access, t.Expires = tokens.Access(access), env.Now().Add(good)
			if dryRun {
				if err := t.Check(env.Now()); err != nil {
					return usagef("%v", err)
				}
				fmt.Fprintf(env.Out, "would make a token to %s tenant %s until %s\n", t.Access, t.Tenant, t.Expires.UTC().Format(time.RFC3339))
				return nil
			}
			token, made, err := file.Create(t)
			if err != nil {
				return err
			}
			fmt.Fprintf(env.Err, "token %s may %s tenant %s until %s; it is shown this once:\n", made.ID, made.Access, made.Tenant, made.Expires.Format(time.RFC3339))
			fmt.Fprintln(env.Out, token)
			return nil
		},
	}
	f := cmd.Flags()
	addTokenFileFlag(cmd, &path)
	f.StringVar(&t.Tenant, "tenant", identity.DefaultTenant, "`TENANT` that it opens")
	f.StringVar(&access, "access", string(tokens.Read), "`ACCESS`: read, or write")
	f.StringVar(&t.Note, "note", "", "`TEXT` to know it by, such as who has it")
	f.DurationVar(&good, "expires", 90*24*time.Hour, "how long it is good")
	f.BoolVar(&dryRun, "dry-run", false, "only say what would be done")
	_ = cmd.RegisterFlagCompletionFunc("access", cobra.FixedCompletions([]string{"read", "write"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// tokenRow is a token as it is listed.
type tokenRow struct {
	ID      string        `json:"id"`
	Tenant  string        `json:"tenant"`
	Access  tokens.Access `json:"access"`
	State   string        `json:"state"` // good, or expired
	Note    string        `json:"note,omitempty"`
	Created time.Time     `json:"created"`
	Expires time.Time     `json:"expires"`
}

func newTokenListCommand(env *Env) *cobra.Command {
	var path string
	var format output.Format
	cmd := &cobra.Command{
		Use:               "list",
		Short:             "List the tokens, which are not shown themselves",
		Example:           `  nstance-admin token list --token-file tokens.json`,
		Args:              usedArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(*cobra.Command, []string) error {
			file, err := tokenFile(env, path)
			if err != nil {
				return err
			}
			list, err := file.List()
			if err != nil {
				return err
			}
			rows := []tokenRow{}
			for _, t := range list {
				state := "good"
				if !env.Now().Before(t.Expires) {
					state = "expired"
				}
				rows = append(rows, tokenRow{t.ID, t.Tenant, t.Access, state, t.Note, t.Created, t.Expires})
			}
			return printTokens(env, format, rows)
		},
	}
	addTokenFileFlag(cmd, &path)
	addOutputFlag(cmd, &format)
	return cmd
}

func printTokens(env *Env, format output.Format, rows []tokenRow) error {
	switch format.Shape() {
	case output.JSON:
		return output.Value(env.Out, format, rows)
	case output.Name:
		for _, r := range rows {
			fmt.Fprintln(env.Out, r.ID)
		}
		return nil
	}
	w := tabwriter.NewWriter(env.Out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "ID\tTENANT\tACCESS\tSTATE\tEXPIRES\tNOTE")
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", r.ID, r.Tenant, r.Access, r.State, r.Expires.Format(time.RFC3339), output.Cell(r.Note))
	}
	return w.Flush()
}

func newTokenRevokeCommand(env *Env) *cobra.Command {
	var path string
	var dryRun bool
	cmd := &cobra.Command{
		Use:               "revoke ID...",
		Short:             "Make tokens useless",
		Example:           `  nstance-admin token revoke tok3f9c01aa27be --token-file tokens.json`,
		Args:              usedArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(_ *cobra.Command, ids []string) error {
			file, err := tokenFile(env, path)
			if err != nil {
				return err
			}
			verb := "revoked"
			if dryRun {
				verb = "would revoke"
				err = file.Known(ids...)
			} else {
				err = file.Revoke(ids...)
			}
			if err != nil {
				return err
			}
			for _, id := range ids {
				fmt.Fprintf(env.Out, "%s %s\n", verb, id)
			}
			return nil
		},
	}
	addTokenFileFlag(cmd, &path)
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only say what would be done")
	return cmd
}

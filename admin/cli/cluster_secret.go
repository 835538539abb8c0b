package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"nstance.dev/admin/clusterops"
	"nstance.dev/admin/output"
	"nstance.dev/server/secrets"
)

// maxSecretFileSize is the size of the largest value that is read, in bytes; stores
// have limits of their own below it.
const maxSecretFileSize = secrets.MaxSealedSize

func newClusterSecretCommand(env *Env, settings *clusterops.Settings) *cobra.Command {
	cmd := newParentCommand("secret", "Store, show and delete secrets that files of machines are made from")
	cmd.AddCommand(newClusterSecretPutCommand(env, settings), newClusterSecretGetCommand(env, settings),
		newClusterSecretListCommand(env, settings), newClusterSecretDeleteCommand(env, settings))
	return cmd
}

func newClusterSecretPutCommand(env *Env, settings *clusterops.Settings) *cobra.Command {
	var from string
	var opts clusterops.PutOptions
	var format output.Format
	cmd := &cobra.Command{
		Use:   "put NAME",
		Short: "Store a secret, or replace it",
		Long: `Store a secret, or replace it, for files of kind secret. Its value is read from
standard input or a file, byte for byte: a line break at the end is part of it. It
is never an argument, which other users of the machine could read.`,
		Example: `  pwgen -s 32 1 | tr -d '\n' | nstance-admin cluster secret put app-token --storage-provider file \
    --storage-bucket .dev/bucket --key-provider file --key-source .dev/encryption.key`,
		Args:              usedArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			return putSecret(cmd.Context(), env, settings, args[0], from, opts, format)
		},
	}
	f := cmd.Flags()
	f.StringVar(&from, "from-file", "-", "`FILE` with the value; - is standard input")
	f.BoolVar(&opts.CreateOnly, "create-only", false, "fail if there is a secret of that name")
	f.BoolVar(&opts.DryRun, "dry-run", false, "only say what would be done")
	addOutputFlag(cmd, &format)
	return cmd
}

func putSecret(ctx context.Context, env *Env, settings *clusterops.Settings, name, from string, opts clusterops.PutOptions, format output.Format) error {
	value, err := readInput(env, from, maxSecretFileSize)
	if err != nil {
		return err
	}
	if len(value) == 0 {
		return usagef("the value of %s is empty: write it to standard input, or name a file with --from-file", name)
	}
	cluster, err := clusterops.Open(ctx, *settings)
	if err != nil {
		return err
	}
	change, err := cluster.PutSecret(ctx, name, value, opts)
	if err != nil {
		return secretError(err)
	}
	return printSecretChange(env, format, change)
}

func newClusterSecretGetCommand(env *Env, settings *clusterops.Settings) *cobra.Command {
	var to string
	cmd := &cobra.Command{
		Use:   "get NAME --to-file FILE",
		Short: "Write the value of a secret to a private file",
		Long: `Write the value of a secret to a file that only you can read, or, where "--to-file
-" asks for it, to standard output, byte for byte.`,
		Example: `  nstance-admin cluster secret get app-token --to-file app-token --storage-provider file \
    --storage-bucket .dev/bucket --key-provider file --key-source .dev/encryption.key`,
		Args:              usedArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			return getSecret(cmd.Context(), env, settings, args[0], to)
		},
	}
	cmd.Flags().StringVar(&to, "to-file", "", "`FILE` to write; - is standard output")
	_ = cmd.MarkFlagRequired("to-file")
	return cmd
}

func getSecret(ctx context.Context, env *Env, settings *clusterops.Settings, name, to string) error {
	cluster, err := clusterops.Open(ctx, *settings)
	if err != nil {
		return err
	}
	value, err := cluster.GetSecret(ctx, name)
	if err != nil {
		return secretError(err)
	}
	if to == "-" {
		_, err := env.Out.Write([]byte(value))
		return err
	}
	if err := clusterops.WritePrivate(to, []byte(value)); err != nil {
		return err
	}
	fmt.Fprintf(env.Out, "%s: secret %s, %d bytes\n", to, name, len(value))
	return nil
}

func newClusterSecretListCommand(env *Env, settings *clusterops.Settings) *cobra.Command {
	var format output.Format
	cmd := &cobra.Command{
		Use:   "list [PREFIX]",
		Short: "List the names of the secrets",
		Long: `List the names of the secrets, and the files that stored configurations make from
them. No value is read or shown.`,
		Example: `  nstance-admin cluster secret list --storage-provider file --storage-bucket .dev/bucket \
    --key-provider file --key-source .dev/encryption.key`,
		Args:              usedArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			return listSecrets(cmd.Context(), env, settings, strings.Join(args, ""), format)
		},
	}
	addOutputFlag(cmd, &format)
	return cmd
}

func listSecrets(ctx context.Context, env *Env, settings *clusterops.Settings, prefix string, format output.Format) error {
	cluster, err := clusterops.Open(ctx, *settings)
	if err != nil {
		return err
	}
	list, err := cluster.ListSecrets(ctx, prefix)
	if err != nil {
		return err
	}
	switch format.Shape() {
	case output.JSON:
		return output.Value(env.Out, format, list)
	case output.Name:
		for _, s := range list {
			fmt.Fprintln(env.Out, s.Name)
		}
		return nil
	}
	w := tabwriter.NewWriter(env.Out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "NAME\tUSED BY")
	for _, s := range list {
		users := strings.Join(s.UsedBy, ", ")
		if s.ClusterKey {
			users = "the cluster itself"
		}
		fmt.Fprintf(w, "%s\t%s\n", s.Name, users)
	}
	return w.Flush()
}

func newClusterSecretDeleteCommand(env *Env, settings *clusterops.Settings) *cobra.Command {
	var force, dryRun bool
	var format output.Format
	cmd := &cobra.Command{
		Use:   "delete NAME",
		Short: "Delete a secret",
		Long: `Delete a secret. One that a stored configuration makes files from is deleted with
--force alone: machines of its templates no longer get new files.`,
		Example: `  nstance-admin cluster secret delete app-token --dry-run --storage-provider file \
    --storage-bucket .dev/bucket --key-provider file --key-source .dev/encryption.key`,
		Args:              usedArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			return deleteSecret(cmd.Context(), env, settings, args[0], force, dryRun, format)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&force, "force", false, "delete it though it is used")
	f.BoolVar(&dryRun, "dry-run", false, "only say what would be done")
	addOutputFlag(cmd, &format)
	return cmd
}

func deleteSecret(ctx context.Context, env *Env, settings *clusterops.Settings, name string, force, dryRun bool, format output.Format) error {
	cluster, err := clusterops.Open(ctx, *settings)
	if err != nil {
		return err
	}
	change, err := cluster.DeleteSecret(ctx, name, force, dryRun)
	if err != nil {
		return secretError(err)
	}
	return printSecretChange(env, format, change)
}

func printSecretChange(env *Env, format output.Format, change clusterops.SecretChange) error {
	switch format.Shape() {
	case output.JSON:
		return output.Value(env.Out, format, change)
	case output.Name:
		fmt.Fprintln(env.Out, change.Name)
		return nil
	}
	text := "secret " + change.Name + ": " + change.Action
	if change.Size > 0 {
		text += fmt.Sprintf(", %d bytes", change.Size)
	}
	if len(change.UsedBy) > 0 {
		text += ", used by " + strings.Join(change.UsedBy, ", ")
	}
	if change.DryRun {
		text += " (dry run: nothing was done)"
	}
	fmt.Fprintln(env.Out, text)
	return nil
}

// secretError adds what would help.
func secretError(err error) error {
	switch {
	case errors.Is(err, clusterops.ErrClusterKey):
		return fmt.Errorf("%w; choose another name (\"cluster rotate-key\" changes keys of the cluster)", err)
	case errors.Is(err, clusterops.ErrSecretUsed):
		return fmt.Errorf("%w; change the configuration first, or delete it all the same with --force", err)
	case errors.Is(err, secrets.ErrExists):
		return fmt.Errorf("%w; leave out --create-only to replace it", err)
	}
	return err
}

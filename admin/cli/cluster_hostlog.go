package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"nstance.dev/admin/clusterops"
	"nstance.dev/admin/output"
	"nstance.dev/server/objectstore"
)

func newClusterHostLogCommand(env *Env, settings *clusterops.Settings) *cobra.Command {
	cmd := newParentCommand("hostlog", "Logs that operation collectLogs has collected on host machines")
	cmd.AddCommand(newClusterHostLogListCommand(env, settings), newClusterHostLogGetCommand(env, settings))
	return cmd
}

func newClusterHostLogListCommand(env *Env, settings *clusterops.Settings) *cobra.Command {
	var format output.Format
	var instance string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the logs that are stored, the newest first",
		Long: `List the logs that are stored, the newest first. Of an instance the last four are kept, and
each for seven days. OPERATION is the UID of the MachineOperation, whose result "key" is KEY.`,
		Example: `  nstance-admin cluster hostlog list --storage-provider file --storage-bucket .dev/bucket \
    --key-provider file --key-source .dev/encryption.key --instance knd068a3cp3thz5z2mv1gejwftabc`,
		Args:              usedArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return listHostLogs(cmd.Context(), env, settings, instance, format)
		},
	}
	cmd.Flags().StringVar(&instance, "instance", "", "only those of one `INSTANCE`")
	addOutputFlag(cmd, &format)
	return cmd
}

func listHostLogs(ctx context.Context, env *Env, settings *clusterops.Settings, instance string, format output.Format) error {
	cluster, err := clusterops.Open(ctx, *settings)
	if err != nil {
		return err
	}
	all, err := cluster.HostLogs(ctx, instance)
	if err != nil {
		return err
	}
	switch format.Shape() {
	case output.JSON:
		return output.Value(env.Out, format, all)
	case output.Name:
		for _, l := range all {
			fmt.Fprintln(env.Out, l.Key)
		}
		return nil
	}
	w := tabwriter.NewWriter(env.Out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "INSTANCE\tTENANT\tSHARD\tAT\tBYTES\tKEY")
	for _, l := range all {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", l.Instance, l.Tenant, l.Shard, moment(l.At), strconv.FormatInt(l.Size, 10), l.Key)
	}
	return w.Flush()
}

func newClusterHostLogGetCommand(env *Env, settings *clusterops.Settings) *cobra.Command {
	var to string
	cmd := &cobra.Command{
		Use:   "get KEY",
		Short: "Show logs of a host, or write them to a file",
		Long: `Show logs of a host, by their key: that is what "list" shows, and the result "key" of the
operation. Control characters are shown as such; with --to-file the text is written byte for
byte, to a file that only you can read.`,
		Example: `  nstance-admin cluster hostlog get --storage-bucket nstance \
    hostlog/us-1a/default.knd068a3cp3thz5z2mv1gejwftabc.20260301T120000.000Z.0f2c.log.gz`,
		Args:              usedArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			return getHostLog(cmd.Context(), env, settings, args[0], to)
		},
	}
	cmd.Flags().StringVar(&to, "to-file", "", "`FILE` to write, instead of standard output")
	return cmd
}

func getHostLog(ctx context.Context, env *Env, settings *clusterops.Settings, key, to string) error {
	cluster, err := clusterops.Open(ctx, *settings)
	if err != nil {
		return err
	}
	text, err := cluster.HostLog(ctx, key)
	switch {
	case errors.Is(err, objectstore.ErrNotFound):
		return fmt.Errorf("%w; they are kept for seven days, and the last four of an instance: nstance-admin cluster hostlog list", err)
	case err != nil:
		return err
	case to == "":
		return printText(env.Out, string(text))
	}
	if err := clusterops.WritePrivate(to, text); err != nil {
		return err
	}
	fmt.Fprintf(env.Out, "%s: %s, %d bytes\n", to, key, len(text))
	return nil
}

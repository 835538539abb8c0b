package serve

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"nstance.dev/server/calls"
	"nstance.dev/server/config"
	"nstance.dev/server/layout"
)

func newServeCommand(p Provider, version string) *cobra.Command {
	var (
		f        Flags
		validate string
	)
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run one server of a shard",
		Long: `Run one server of a shard: its leader, or a standby that takes over when the
leader is gone. Any number may run with the same storage, each with an --id and
a --cachedir of its own.

Credentials of s3 and gcs are found where the SDKs of the clouds look for them.
For other stores than Amazon's set AWS_ENDPOINT_URL, AWS_REGION and, where the
bucket is a part of the path, AWS_S3_USE_PATH_STYLE=true.`,
		Example: fmt.Sprintf("  nstance-server-%s serve --id server-1 --shard zone-a --storage file --bucket /srv/nstance", p.Kind),
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("validate") && validate != fromStorage {
				return validateFile(cmd.OutOrStdout(), validate, f.Shard, p)
			}
			if err := f.check(); err != nil {
				return err
			}
			if cmd.Flags().Changed("validate") {
				return validateStored(cmd.Context(), cmd.OutOrStdout(), f, p)
			}
			return Run(cmd.Context(), Options{Flags: f, Provider: p, Version: version, Log: NewLogger(os.Stderr, f.Debug)})
		},
	}
	f.add(cmd)
	fl := cmd.Flags()
	fl.StringVar(&validate, "validate", "", "check a configuration and exit: that of the shard, or with =PATH a local file")
	fl.Lookup("validate").NoOptDefVal = fromStorage
	return cmd
}

// fromStorage stands for --validate without a path.
const fromStorage = "\x00"

// validateFile checks a configuration in a file.
func validateFile(out io.Writer, path, shard string, p Provider) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return validated(out, path, data, config.LoadOptions{Shard: shard, Rules: p.Rules})
}

// validateStored checks the configuration of the shard in storage.
func validateStored(ctx context.Context, out io.Writer, f Flags, p Provider) error {
	store, err := f.openStore(ctx, &calls.Book{}, newStorageCalls())
	if err != nil {
		return err
	}
	key := layout.ConfigKey(f.Shard)
	obj, err := store.Get(ctx, key)
	if err != nil {
		return err
	}
	return validated(out, key, obj.Data, loadOptions(f, p))
}

func validated(out io.Writer, name string, data []byte, opts config.LoadOptions) error {
	cfg, err := config.Load(name, data, opts)
	if err != nil {
		return fmt.Errorf("configuration is not valid:\n%w", err)
	}
	for _, w := range cfg.Warnings {
		fmt.Fprintln(out, "warning:", w)
	}
	if opts.Shard == "" {
		fmt.Fprintf(out, "warning: %s: server.shard, %q, was not compared with that of a server; say --shard\n", name, cfg.Server.Shard)
	}
	_, err = fmt.Fprintf(out, "%s is valid\n", name)
	return err
}

// NewLogger makes the process's logger: one JSON object a line.
func NewLogger(out io.Writer, debug bool) *slog.Logger {
	level := slog.LevelInfo
	if debug {
		level = slog.LevelDebug
	}
	return slog.New(slog.NewJSONHandler(out, &slog.HandlerOptions{Level: level}))
}

package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"nstance.dev/admin/linediff"
	"nstance.dev/admin/manifest"
	"nstance.dev/admin/output"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

func newGroupDiffCommand(env *Env, flags *shardFlags) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "diff -f FILE",
		Short: "Show how groups would change if a file were applied",
		Long: `Show how groups would change if a file were applied: lines with - are as it is,
lines with + as it would be. Nothing is changed. What machines that would cost,
"shard config plan" says of configurations.`,
		Example: `  nstance-admin group diff -f web.yaml
  nstance-admin group diff -f - --all-shards < groups.yaml`,
		Args:              usedArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	addFileFlag(cmd, &file)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		groups, err := readGroups(env, file)
		if err != nil {
			return err
		}
		return onEachShard(cmd.Context(), env, flags, func(ctx context.Context, s *shard) error {
			return diffGroups(ctx, env, s, groups)
		})
	}
	return cmd
}

// addFileFlag gives a command the flag that names a file with groups.
func addFileFlag(cmd *cobra.Command, file *string) {
	cmd.Flags().StringVarP(file, "file", "f", "", "`FILE` with the groups; - is standard input")
	_ = cmd.MarkFlagRequired("file")
	_ = cmd.MarkFlagFilename("file", "yaml", "yml", "json")
}

// readGroups reads a file with groups.
func readGroups(env *Env, file string) ([]*nstancev1.UpsertGroupRequest, error) {
	data, err := readInput(env, file, manifest.MaxSize)
	if err != nil {
		return nil, err
	}
	name := file
	if file == "-" {
		name = stdinName
	}
	return manifest.Parse(name, data)
}

// diffGroups prints what each request would change on a shard.
func diffGroups(ctx context.Context, env *Env, s *shard, requests []*nstancev1.UpsertGroupRequest) error {
	var failed failures
	for _, request := range requests {
		group, err := findGroup(ctx, s, request.GetKey())
		if err != nil && status.Code(err) != codes.NotFound {
			failed.add(err)
			continue
		}
		failed.add(printDiff(env, s, group, request))
	}
	return failed.err()
}

// printDiff prints what a request would change; group is nil where there is none.
func printDiff(env *Env, s *shard, group *nstancev1.GroupStatus, request *nstancev1.UpsertGroupRequest) error {
	var before string
	current := &nstancev1.UpsertGroupRequest{Key: request.GetKey()}
	if group != nil {
		current = manifest.Of(group)
		text, err := manifest.Encode(current)
		if err != nil {
			return err
		}
		before = string(text)
	}
	after, err := manifest.Encode(manifest.Merge(current, request))
	if err != nil {
		return err
	}
	lines := linediff.Of(before, string(after))
	switch {
	case group == nil:
		fmt.Fprintf(env.Out, "%sgroup %s: new\n", s.prefix(), request.GetKey())
	case len(lines) == 0:
		fmt.Fprintf(env.Out, "%sgroup %s: no change\n", s.prefix(), request.GetKey())
	default:
		fmt.Fprintf(env.Out, "%sgroup %s: changes\n", s.prefix(), request.GetKey())
	}
	for _, line := range lines {
		fmt.Fprintln(env.Out, output.Cell(strings.TrimRight(line, " ")))
	}
	return nil
}

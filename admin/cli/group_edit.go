package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"nstance.dev/admin/manifest"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

func newGroupEditCommand(env *Env, flags *shardFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "edit GROUP",
		Short: "Change a group in an editor",
		Long: `Open the settings of a group in the editor that VISUAL or EDITOR names, and send
what has been changed. The change is refused if the group has changed in between.
Without a change nothing is sent. A text that is refused is kept in its file.`,
		Example: `  nstance-admin group edit web
  EDITOR="code --wait" nstance-admin group edit web --dry-run`,
		Args:              usedArgs,
		ValidArgsFunction: completeGroups(env, flags),
	}
	how := addEndingFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if flags.AllShards {
			return usagef("edit works on one shard; choose it with --shard")
		}
		return onEditedShard(cmd.Context(), env, flags, args[0], how)
	}
	return cmd
}

// onEditedShard connects twice: nobody edits within the time-out of one call.
func onEditedShard(ctx context.Context, env *Env, flags *shardFlags, key string, how *changeFlags) error {
	var group *nstancev1.GroupStatus
	err := onEachShard(ctx, env, flags, func(ctx context.Context, s *shard) (err error) {
		group, err = findGroup(ctx, s, key)
		return err
	})
	if err != nil {
		return err
	}
	draft, err := editGroup(ctx, env, group)
	if err != nil {
		return err
	}
	if draft.request == nil {
		fmt.Fprintf(env.Out, "group %s: not changed\n", key)
		return draft.discard()
	}
	err = onEachShard(ctx, env, flags, func(ctx context.Context, s *shard) error {
		return sendDraft(ctx, env, s, group, draft.request, how)
	})
	if err != nil {
		return fmt.Errorf("%w; the text is kept in %s", err, draft.path)
	}
	return draft.discard()
}

func sendDraft(ctx context.Context, env *Env, s *shard, group *nstancev1.GroupStatus, request *nstancev1.UpsertGroupRequest, how *changeFlags) error {
	if how.dryRun {
		return printDiff(env, s, group, request)
	}
	if err := confirmSmaller(env, s, group, request, how); err != nil {
		return err
	}
	after, err := s.api.UpsertGroup(ctx, request)
	if err != nil {
		return fmt.Errorf("group %s: %w", group.GetKey(), err)
	}
	fmt.Fprintf(env.Out, "%sgroup %s: applied, size %d\n", s.prefix(), after.GetKey(), after.GetSize())
	return nil
}

// confirmSmaller asks before a request makes a group smaller.
func confirmSmaller(env *Env, s *shard, group *nstancev1.GroupStatus, request *nstancev1.UpsertGroupRequest, how *changeFlags) error {
	if request.GetConfig().Size == nil || request.GetConfig().GetSize() >= group.GetSize() {
		return nil
	}
	return how.confirm(env, "%sgroup %s: size %d instead of %d deletes %s.", s.prefix(), group.GetKey(),
		request.GetConfig().GetSize(), group.GetSize(), machines(int(group.GetSize()-request.GetConfig().GetSize())))
}

// draft is a text that has been edited.
type draft struct {
	path    string
	request *nstancev1.UpsertGroupRequest // nil: nothing has changed
}

func (d draft) discard() error { return os.RemoveAll(filepath.Dir(d.path)) }

// editGroup lets the user edit the description of a group.
func editGroup(ctx context.Context, env *Env, group *nstancev1.GroupStatus) (draft, error) {
	before := manifest.Of(group)
	text, err := manifest.Encode(before)
	if err != nil {
		return draft{}, err
	}
	dir, err := os.MkdirTemp(env.TempDir, "nstance-edit-")
	if err != nil {
		return draft{}, err
	}
	d := draft{path: filepath.Join(dir, group.GetKey()+".yaml")}
	text = append([]byte("# Group "+group.GetKey()+". What is changed here is sent when the editor ends; without a change nothing is.\n"), text...)
	if err := os.WriteFile(d.path, text, 0o600); err != nil {
		return draft{}, err
	}
	if err := runEditor(ctx, env, d.path); err != nil {
		return draft{}, err
	}
	edited, err := os.ReadFile(d.path)
	if err != nil || bytes.Equal(edited, text) {
		return d, err
	}
	groups, err := manifest.Parse(d.path, edited)
	if err != nil {
		return draft{}, err
	}
	if len(groups) != 1 {
		return draft{}, fmt.Errorf("%s: it must describe one group, and describes %d", d.path, len(groups))
	}
	if d.request, err = manifest.Changes(before, groups[0]); err != nil {
		return draft{}, fmt.Errorf("%s: %w", d.path, err)
	}
	if d.request != nil && group.GetEtag() != "" {
		d.request.ExpectedEtag = &group.Etag
	}
	return d, nil
}

// runEditor runs what VISUAL or EDITOR names, with its own arguments, on a file.
func runEditor(ctx context.Context, env *Env, path string) error {
	words := strings.Fields(cmp.Or(env.Getenv("VISUAL"), env.Getenv("EDITOR"), "vi"))
	if len(words) == 0 {
		return errors.New("no editor: set EDITOR")
	}
	cmd := exec.CommandContext(ctx, words[0], append(words[1:], path)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = env.In, env.Out, env.Err
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("editor %s: %w; set EDITOR to another", words[0], err)
	}
	return nil
}

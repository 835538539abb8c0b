package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"nstance.dev/admin/bundle"
	"nstance.dev/admin/clusterops"
	"nstance.dev/admin/wait"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

func newSupportBundleCommand(env *Env) *cobra.Command {
	var path string
	cmd := &cobra.Command{
		Use:   "support-bundle",
		Short: "Pack what helps to find a fault into an archive without secrets",
		Long: `Pack what helps to find a fault into a tar.gz: versions, the findings of "doctor", and
of each shard the leader, the configuration's status, the groups and instances with their
conditions and last decisions, and unmanaged machines as far as this identity may see them.

No secret is in it: values of variables and arguments are masked, and so is whatever looks
like a key, a token or a password. What cannot be had is named in errors.txt. Look into the
archive before you give it away: names of groups and addresses are in it.`,
		Example: `  nstance-admin support-bundle
  nstance-admin support-bundle --shard us-1a --output fault.tar.gz`,
		Args:              usedArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flags := addShardFlags(env, cmd)
	cmd.Flags().StringVar(&path, "output", "", "`FILE` to write (default: nstance-support-TIME.tar.gz in this folder)")
	_ = cmd.MarkFlagFilename("output", "tar.gz")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return supportBundle(cmd.Context(), env, flags, path) }
	return cmd
}

func supportBundle(ctx context.Context, env *Env, flags *shardFlags, path string) error {
	folder := "nstance-support-" + env.Now().UTC().Format("20060102T150405Z")
	if path == "" {
		path = folder + ".tar.gz"
	}
	if _, err := os.Stat(path); err == nil {
		return fmt.Errorf("%s exists: name another file with --output", path)
	}
	c := &collected{env: env}
	c.add("version.txt", []byte(fmt.Sprintf("nstance-admin %s (%s %s/%s)\n", env.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH)), nil)
	findings, err := diagnose(ctx, env, flags, &clusterops.Settings{})
	if err != nil {
		return err // nothing says which cluster
	}
	data, err := json.MarshalIndent(findings, "", "  ")
	c.add("doctor.json", data, err)
	wide := *flags
	wide.AllShards = flags.Shard == ""
	if err := onEachShard(ctx, env, &wide, c.shard); err != nil {
		c.note("connect", err)
	}
	if c.errs.Len() > 0 {
		c.files = append(c.files, bundle.File{Name: "errors.txt", Data: c.errs.Bytes()})
	}
	var archive bytes.Buffer
	if err := bundle.Write(&archive, folder, c.files, env.Now()); err != nil {
		return err
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	if err := clusterops.WritePrivate(absolute, archive.Bytes()); err != nil {
		return err
	}
	fmt.Fprintf(env.Out, "%s: %d files, %d bytes\n", path, len(c.files), archive.Len())
	return nil
}

// collected are the files of a bundle, and what could not be had.
type collected struct {
	env   *Env
	files []bundle.File
	errs  bytes.Buffer
}

func (c *collected) add(name string, data []byte, err error) {
	if err != nil {
		c.note(name, err)
		return
	}
	c.files = append(c.files, bundle.File{Name: name, Data: data})
}

func (c *collected) note(what string, err error) { fmt.Fprintf(&c.errs, "%s: %s\n", what, text(err)) }

func (c *collected) message(name string, m proto.Message, err error) {
	if err != nil {
		c.note(name, err)
		return
	}
	data, err := bundle.JSON(m)
	c.add(name, data, err)
}

// shard collects what one shard says. What it refuses does not keep the rest back.
func (c *collected) shard(ctx context.Context, s *shard) error {
	folder := s.name + "/"
	p := &progress{w: c.env.Err, terminal: c.env.Terminal, label: s.label}
	if c.env.Terminal {
		p.report("collecting")
		defer p.end()
	}
	info, err := s.api.GetServerInfo(ctx, &emptypb.Empty{})
	c.message(folder+"server.json", info, err)
	config, err := s.api.GetConfigStatus(ctx, &emptypb.Empty{})
	c.message(folder+"config-status.json", config, err)
	instances, complete, err := wait.ListInstances(ctx, s.api)
	c.message(folder+"instances.json", &nstancev1.ListInstancesResponse{Instances: instances, Complete: complete}, err)
	unmanaged, err := s.api.ListHeldVMs(ctx, &emptypb.Empty{})
	c.message(folder+"unmanaged.json", unmanaged, err)
	groups, err := listGroups(ctx, s)
	if err != nil {
		c.note(folder+"groups.json", err)
		return nil
	}
	all := &nstancev1.ListGroupsResponse{}
	for _, g := range groups {
		all.Groups = append(all.Groups, bundle.Group(g.Message))
		key := g.Message.GetKey()
		why, err := s.api.Explain(ctx, &nstancev1.ExplainRequest{Target: &nstancev1.ExplainRequest_Group{Group: key}})
		if why != nil {
			why.Group = nil // it stands in groups.json
		}
		c.message(folder+"explain/"+key+".json", why, err)
	}
	c.message(folder+"groups.json", all, nil)
	return nil
}

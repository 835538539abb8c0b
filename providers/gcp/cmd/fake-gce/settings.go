package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"nstance.dev/providers/gcp/gcpfake"
)

// settings are the flags.
type settings struct {
	listen  string
	project string
	dir     string
	agent   string
	env     string
	servers int
	speed   float64
}

const usage = `A project of Google Cloud in memory, for trying things out. It prints the environment
variables that lead nstance-server-gcp to it, and serves until it is interrupted.

The project has the zones europe-west1-b, -c and -d; the subnet nstance (10.0.0.0/24);
public images of Debian and Ubuntu; in europe-west1-b the instance group web, the
network endpoint group web (port 443), and a machine server-1 for the server to be on.

Users do things to machines:

  curl $FAKE_GCE/fake/machines                            what there is
  curl -X POST $FAKE_GCE/fake/machines/NAME/kill          the machine powers itself off
  curl -X POST $FAKE_GCE/fake/machines/NAME/remove        the machine is gone without a trace
  curl -X POST $FAKE_GCE/fake/machines/NAME/interrupt     a spot machine gets its notice

Usage:
  fake-gce [flags]

Example:
  fake-gce --env /tmp/fake-gce.env &
  . /tmp/fake-gce.env

Flags:
`

func parse(args []string, stderr io.Writer) (settings, error) {
	var s settings
	flags := flag.NewFlagSet("fake-gce", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&s.listen, "listen", "127.0.0.1:8085", "address to serve the API on; port 0 takes a free one")
	flags.StringVar(&s.project, "project", "nstance-fake", "id of the project")
	flags.StringVar(&s.dir, "dir", "", "directory for the machines' disks, kept at the end (default: a temporary one, removed)")
	flags.StringVar(&s.agent, "agent", "", "program that machines have as /usr/local/bin/nstance-agent")
	flags.StringVar(&s.env, "env", "", "write the variables to this file too, when everything is ready")
	flags.IntVar(&s.servers, "servers", 1, "how many machines there are for servers to be on; each prints its own variables")
	flags.Float64Var(&s.speed, "speed", 10, "how many times as fast as in the real cloud things are")
	flags.Usage = func() {
		fmt.Fprint(stderr, usage)
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	switch {
	case flags.NArg() > 0:
		return s, fmt.Errorf("unexpected argument %q; see --help", flags.Arg(0))
	case !(s.speed > 0):
		return s, fmt.Errorf("--speed %v is not above 0", s.speed)
	case s.servers < 1 || s.servers > 9:
		return s, fmt.Errorf("--servers %d is not between 1 and 9", s.servers)
	}
	return s, nil
}

// absolute makes the paths absolute, as machines need them, and the directory if it is
// missing. Cleaning up removes what nobody asked to keep.
func (s *settings) absolute() (cleanup func(), err error) {
	cleanup = func() {}
	if s.dir == "" {
		if s.dir, err = os.MkdirTemp("", "fake-gce-"); err != nil {
			return nil, err
		}
		made := s.dir
		cleanup = func() { _ = os.RemoveAll(made) }
	}
	for _, path := range []*string{&s.dir, &s.agent} {
		if *path == "" {
			continue
		}
		if *path, err = filepath.Abs(*path); err != nil {
			cleanup()
			return nil, err
		}
	}
	return cleanup, nil
}

// How long things take in the real cloud, about.
const (
	bootTime = 20 * time.Second
	endTime  = 30 * time.Second
	workTime = 3 * time.Second
)

// options are those of the cloud.
func (s settings) options() gcpfake.Options {
	faster := func(d time.Duration) time.Duration { return time.Duration(float64(d) / s.speed) }
	return gcpfake.Options{
		Project:    s.project,
		Conditions: gcpfake.Conditions{Boot: faster(bootTime), End: faster(endTime), Work: faster(workTime)},
		Notice:     faster(30 * time.Second),
		Limits:     gcpfake.DocumentedLimits().Faster(s.speed),
	}
}

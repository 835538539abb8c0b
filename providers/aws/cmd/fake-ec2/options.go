package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"time"
)

// options are what the command line says.
type options struct {
	listen   string
	metadata string
	servers  int
	region   string
	dir      string
	env      string
	agent    string
	empty    bool
	boot     time.Duration
	end      time.Duration
	lag      time.Duration
	page     int
	limits   bool
	speed    float64
}

const usage = `fake-ec2 stands in for an account of AWS on this box: Amazon EC2, Elastic Load
Balancing, and the metadata service of an instance that a server can run on.

It prints the environment variables that point an AWS SDK at it, and what there is
in the account. State is kept in memory. Machines are processes of this box, in a
directory each, made from their user data: a script for sh or bash, or the simple
part of cloud-config. Only run user data that you trust.

It also answers to users:
  curl $FAKE_EC2/fake/machines                          what there is
  curl -X POST $FAKE_EC2/fake/machines/ID/kill          the machine powers itself off
  curl -X POST $FAKE_EC2/fake/machines/ID/hang          it does nothing, and EC2 says that it runs
  curl -X POST $FAKE_EC2/fake/machines/ID/remove        the machine is gone without a trace
  curl -X POST $FAKE_EC2/fake/machines/ID/interrupt     a spot machine gets its notice

Usage:
  fake-ec2 [flags]

Example:
  fake-ec2 --env /tmp/fake-ec2.env &
  . /tmp/fake-ec2.env

Flags:
`

// parse reads the command line. What is wrong with it, or the help that it asks for,
// has been written to out when it returns an error of package flag.
func parse(args []string, out io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("fake-ec2", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.StringVar(&o.listen, "listen", "127.0.0.1:0", "`address` of EC2 and Elastic Load Balancing; port 0: any")
	flags.StringVar(&o.metadata, "metadata", "127.0.0.1:0", "`address` of the metadata service of the first server's instance")
	flags.IntVar(&o.servers, "servers", 1, "how many instances there are that a server can run on, each with a metadata service")
	flags.StringVar(&o.region, "region", "us-east-1", "`name` of the region")
	flags.StringVar(&o.env, "env", "", "write the variables to this `file` too, when everything is ready")
	flags.StringVar(&o.dir, "dir", "", "`directory` of the machines; a temporary one")
	flags.StringVar(&o.agent, "agent", "", "`path` of the agent that machines have; nstance-agent on the PATH, if there is one")
	flags.BoolVar(&o.empty, "empty-machines", false, "do not run anything in machines")
	flags.DurationVar(&o.boot, "boot", time.Second, "how long a machine is pending")
	flags.DurationVar(&o.end, "end", time.Second, "how long a machine is stopping or shutting-down")
	flags.DurationVar(&o.lag, "lag", 0, "how much later describing calls see what happened")
	flags.IntVar(&o.page, "page-size", 0, "the most machines of one page; as many as EC2")
	flags.BoolVar(&o.limits, "limits", false, "throttle calls as AWS documents it")
	flags.Float64Var(&o.speed, "speed", 1, "with --limits: buckets fill up so many times as fast")
	flags.Usage = func() {
		_, _ = fmt.Fprint(out, usage)
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q; see --help", flags.Arg(0))
	}
	if o.servers < 1 {
		return o, fmt.Errorf("--servers: %d; at least one is needed", o.servers)
	}
	return o, o.complete()
}

// complete finds the agent and makes paths absolute.
func (o *options) complete() error {
	if o.agent == "" && !o.empty {
		o.agent, _ = exec.LookPath("nstance-agent") // without it, machines have none
	}
	var errs []error
	for _, path := range []*string{&o.agent, &o.dir} {
		if *path != "" {
			absolute, err := filepath.Abs(*path)
			*path = absolute
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Command dev-demand runs a Kubernetes cluster on this box that gets its Nodes in demand mode, for
// trying it out: a control plane, the operator with the rights that its chart gives it, and a
// shard whose machines are processes. What stands in for something is the Node agent of package
// nodes: it says that a machine is a Node and that its Pods run, and runs no containers.
//
// Everything listens on 127.0.0.1 and has its files in one directory, which is removed at the end.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

func main() {
	dir := flag.String("dir", ".dev-demand", "keep everything in this `directory`, which is removed at the end")
	bin := flag.String("bin", "bin", "start the programs in this `directory`")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	err := run(ctx, os.Stdout, *dir, *bin)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "dev-demand:", err)
		os.Exit(1)
	}
}

// run has the cluster until ctx ends, or a part of it does.
func run(ctx context.Context, out io.Writer, name, bin string) (err error) {
	bin, err = filepath.Abs(bin)
	if err != nil {
		return err
	}
	d, err := take(name, bin)
	if err != nil {
		return err
	}
	b := &box{dir: d, bin: bin, out: out}
	err = b.run(ctx)
	if ended := b.end(); err == nil {
		err = ended
	}
	if err != nil {
		return fmt.Errorf("%w\nlogs are kept in %s until the next start", err, d.logs())
	}
	return d.remove()
}

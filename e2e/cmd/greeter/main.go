// Command greeter is the least that a gRPC client can be, the floor that package
// bench compares an agent's process to: it greets a server and stays connected.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "greeter:", err)
		os.Exit(1)
	}
}

// run makes one call, and keeps the connection until ctx ends.
func run(ctx context.Context) error {
	addr := flag.String("addr", "", "greet the server at this `address`")
	ca := flag.String("ca", "", "trust this `file` of certificates")
	name := flag.String("name", "", "expect this server `name`")
	flag.Parse()
	text, err := os.ReadFile(*ca)
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(text)
	creds := credentials.NewTLS(&tls.Config{RootCAs: roots, ServerName: *name, MinVersion: tls.VersionTLS13})
	conn, err := grpc.NewClient("passthrough:///"+*addr, grpc.WithTransportCredentials(creds))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // the process ends
	if _, err := healthv1.NewHealthClient(conn).Check(ctx, &healthv1.HealthCheckRequest{}); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// Command keeper is the least that a server of ours can be, the floor that package
// bench compares the start of one to: it makes a SQLite file with the tables that it
// is given and so many durable files, prints its address, and greets.
package main

import (
	"context"
	"database/sql"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/google/renameio/v2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	_ "modernc.org/sqlite" // the driver "sqlite"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "keeper:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	dir := flag.String("dir", "", "make everything in this `folder`")
	tables := flag.String("tables", "", "make the tables of this `file` of SQL")
	writes := flag.Int("writes", 0, "write so many files")
	flag.Parse()
	statements, err := os.ReadFile(*tables)
	if err != nil {
		return err
	}
	db, err := sql.Open("sqlite", "file:"+filepath.Join(*dir, "keeper.db")+"?_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)")
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }() // the process ends
	if _, err := db.ExecContext(ctx, string(statements)); err != nil {
		return err
	}
	for i := range *writes {
		if err := renameio.WriteFile(filepath.Join(*dir, fmt.Sprint(i)), []byte("durable"), 0o600); err != nil {
			return err
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s := grpc.NewServer()
	healthv1.RegisterHealthServer(s, health.NewServer())
	context.AfterFunc(ctx, s.Stop)
	fmt.Println(l.Addr())
	return s.Serve(l)
}

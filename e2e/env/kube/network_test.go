package kube

import (
	"net"
	"os"
	"testing"
)

func TestOwnNetwork_hasOnlyLoopback(t *testing.T) {
	if os.Getenv(inOwnNetwork) == "" {
		t.Log("this system allows no network of our own")
		return
	}
	interfaces, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	if len(interfaces) != 1 || interfaces[0].Flags&(net.FlagLoopback|net.FlagUp) != net.FlagLoopback|net.FlagUp {
		t.Errorf("interfaces %v, want lo alone, and up", interfaces)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatalf("loopback does not carry anything: %v", err)
	}
	conn.Close()
}

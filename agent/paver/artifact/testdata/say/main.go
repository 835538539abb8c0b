// Say is a program of an image for tests: it says the line in the file beside it.
package main

import (
	"fmt"
	"net"
	"os"
)

func main() {
	line, err := os.ReadFile(os.Args[0] + ".says")
	switch {
	case err != nil || string(line) == "fail":
		fmt.Fprintln(os.Stderr, "no luck")
		os.Exit(3)
	case string(line) == "who":
		interfaces, _ := net.Interfaces()
		_, outside := os.Stat("/etc/passwd")
		written := os.WriteFile("/written", nil, 0o600)
		fmt.Printf("user %d, process %d, %d interfaces, the host's files %v, writing %v\n",
			os.Getuid(), os.Getpid(), len(interfaces), outside == nil, written == nil)
	default:
		fmt.Printf("%s\nmore\n", line)
	}
}

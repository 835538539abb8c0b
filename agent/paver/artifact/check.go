package artifact

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"time"

	"nstance.dev/agent/paver/command"
	"nstance.dev/agent/paver/tree"
)

// searched are the directories that programs of a node are looked for in: in this order, as
// its systemd does.
var searched = []string{"usr/local/sbin", "usr/local/bin", "usr/sbin", "usr/bin"}

// Find is the path of a program in the tree at dir, absolute; empty: it has none.
func Find(dir, program string) string {
	for _, d := range searched {
		at := path.Join(d, program)
		if info, err := tree.Stat(dir, at); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return "/" + at
		}
	}
	return ""
}

// Found is a program of a tree.
type Found struct {
	Path    string
	Version string // the first line that it says of itself
}

// needed are the programs that a node cannot do without. Plugins of a network may come
// later, by a Pod that brings them, and Pods are ended by signals where crictl is missing.
var needed = []Name{Kubelet, Containerd, Runc}

// Check looks whether the tree at dir has what a node of the Kubernetes version needs, and
// runs: all but what comes as an artifact later. The error matches [ErrUnusable] if it has
// not. It needs root.
func Check(ctx context.Context, dir, version string, later ...Name) (map[Name]Found, error) {
	found := map[Name]Found{}
	for _, name := range needed {
		if containsName(later, name) {
			continue
		}
		program := required[name][0]
		at := Find(dir, program)
		if at == "" {
			return nil, fmt.Errorf("%w: the image has no %s in /usr/local/bin, /usr/bin or sbin beside them; name it in kubernetes.artifacts.%s, or use another image", ErrUnusable, program, name)
		}
		said, err := ask(ctx, dir, at)
		if err != nil {
			return nil, err
		}
		if name == Kubelet && !isVersion(said, version) {
			return nil, fmt.Errorf("%w: %s in the image says %.80q, kubernetes.version is %s", ErrUnusable, at, said, version)
		}
		found[name] = Found{at, said}
	}
	return found, nil
}

func containsName(names []Name, name Name) bool {
	for _, n := range names {
		if n == name {
			return true
		}
	}
	return false
}

var kubernetesVersion = regexp.MustCompile(`^Kubernetes (v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.]+)?)(\+[0-9A-Za-z.+-]+)?$`)

// isVersion compares what a kubelet says with a version; who has built it does not matter.
func isVersion(said, version string) bool {
	match := kubernetesVersion.FindStringSubmatch(said)
	return match != nil && match[1] == version
}

const (
	// patience is how long a program may take to say its version.
	patience = 20 * time.Second
	// nobody is a user that has no files.
	nobody = 65534
)

// ask runs a program of the tree with --version.
func ask(ctx context.Context, dir, program string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "--version")
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/", "LANG=C"}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Chroot:     dir,
		Credential: &syscall.Credential{Uid: nobody, Gid: nobody},
		Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS | syscall.CLONE_NEWNS,
		Pdeathsig:  syscall.SIGKILL,
	}
	// The signal comes when the thread ends that has started the child.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	out, err := command.Run(cmd)
	line, _, _ := bytes.Cut(out.Text, []byte("\n"))
	said := strings.TrimSpace(string(line))
	if err != nil {
		return "", fmt.Errorf("run %s of the image: %w", program, err)
	}
	if out.Code != 0 {
		return "", fmt.Errorf("%w: %s --version in the image ends with status %d: %.200q", ErrUnusable, program, out.Code, said)
	}
	return said, nil
}

package hostvm_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"nstance.dev/e2e/env/hostvm"
)

// qemu stands for QEMU: it prints, and goes on until its host switches itself off.
const qemu = `#!/bin/sh
echo $$ >pid
echo on >>console
until [ -e shutdown ]; do sleep 0.02; done
`

// TestPower: a host is switched on by its user data, is off while the power is cut, ends when it switches
// itself off, and belongs to one machine.
func TestPower(t *testing.T) {
	programs, image, dir := t.TempDir(), t.TempDir(), t.TempDir()
	t.Setenv("PATH", programs+":"+os.Getenv("PATH"))
	for path, text := range map[string]string{
		filepath.Join(programs, "qemu-system-x86_64"): qemu, filepath.Join(image, "disk"): "a disk", filepath.Join(programs, "program"): "a program",
	} {
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	h, err := hostvm.New(t.Context(), hostvm.Options{
		Image: image, Dir: dir, Port: 1, Accelerator: "tcg", Start: "./program", Files: map[string]string{"program": filepath.Join(programs, "program")},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.CutPower(); !errors.Is(err, hostvm.ErrOff) {
		t.Errorf("cut the power of a host that was never on: %v", err)
	}
	if err := h.RestorePower(); err != nil {
		t.Fatal(err)
	}

	machine := start(t, h, "own")
	at := 0
	for range 2 {
		at = prints(t, h, at)
		if err := h.CutPower(); err != nil {
			t.Fatal(err)
		}
		if err := h.CutPower(); !errors.Is(err, hostvm.ErrOff) {
			t.Errorf("cut the power twice: %v", err)
		}
		if err := machine.Process.Signal(syscall.Signal(0)); err != nil {
			t.Errorf("the machine ended when its host lost its power: %v", err)
		}
		if err := h.RestorePower(); err != nil {
			t.Fatal(err)
		}
	}
	prints(t, h, at)
	if err := os.WriteFile(filepath.Join(dir, "shutdown"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := machine.Wait(); err != nil {
		t.Errorf("the machine whose host has switched itself off: %v", err)
	}

	seed, err := exec.Command("tar", "--extract", "--to-stdout", "--file", filepath.Join(dir, "seed"), "./program", "./user-data", "./start").Output()
	if err != nil || !strings.Contains(string(seed), "a program") || !strings.Contains(string(seed), "own") || !strings.Contains(string(seed), "./program\n") {
		t.Errorf("the host is given %q, %v", seed, err)
	}
	if err := start(t, h, "another").Wait(); err == nil {
		t.Error("another machine is switched on with the same disk")
	}
}

// makesHost has this program make a host in that directory, print its user data, and wait to be killed.
const makesHost = "NSTANCE_TEST_MAKES_HOST"

func TestMain(m *testing.M) {
	if dir := os.Getenv(makesHost); dir != "" {
		h, err := hostvm.New(context.Background(), hostvm.Options{Image: filepath.Join(dir, "image"), Dir: filepath.Join(dir, "host"), Port: 1, Accelerator: "tcg"})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1) //nolint:forbidigo // a process of its own
		}
		fmt.Fprint(os.Stdout, h.UserData("own"))
		_ = os.Stdout.Close()
		time.Sleep(time.Hour)
	}
	os.Exit(m.Run()) //nolint:forbidigo // as testing does
}

// TestAHostEndsWithWhoMadeIt: also where that is killed, which cleans nothing up.
func TestAHostEndsWithWhoMadeIt(t *testing.T) {
	dir := t.TempDir()
	for path, text := range map[string]string{"programs/qemu-system-x86_64": qemu, "image/disk": "a disk", "host/console": ""} {
		if err := errors.Join(os.MkdirAll(filepath.Join(dir, filepath.Dir(path)), 0o755), os.WriteFile(filepath.Join(dir, path), []byte(text), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", filepath.Join(dir, "programs")+":"+os.Getenv("PATH"))
	owner := exec.CommandContext(t.Context(), os.Args[0])
	owner.Env = append(os.Environ(), makesHost+"="+dir)
	out, err := owner.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := owner.Start(); err != nil {
		t.Fatal(err)
	}
	userData, err := io.ReadAll(out)
	if err != nil {
		t.Fatal(err)
	}
	machine := startUserData(t, string(userData))
	var pid int
	for deadline := time.Now().Add(time.Minute); pid == 0 && time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		text, _ := os.ReadFile(filepath.Join(dir, "host", "pid"))
		pid, _ = strconv.Atoi(strings.TrimSpace(string(text)))
	}
	if pid == 0 || ended(pid) {
		t.Fatalf("QEMU %d does not run", pid)
	}
	if err := owner.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = owner.Wait()
	if err := machine.Wait(); err == nil || machine.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL { //nolint:forcetypeassert // of Linux
		t.Errorf("the machine ended with %v", err)
	}
	for deadline := time.Now().Add(time.Minute); !ended(pid); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("QEMU runs on")
		}
	}
}

// ended is whether a process does not run any more.
func ended(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, state, _ := strings.Cut(string(text), ") ")
	return err != nil || strings.HasPrefix(state, "Z")
}

// start starts the machine that is a host, as provider local does.
func start(t *testing.T, h *hostvm.Host, own string) *exec.Cmd {
	t.Helper()
	return startUserData(t, h.UserData(own))
}

func startUserData(t *testing.T, userData string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sh", "-c", userData)
	cmd.Env = append(os.Environ(), "NSTANCE_MACHINE_DIR="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	return cmd
}

// prints waits until the host is on.
func prints(t *testing.T, h *hostvm.Host, offset int) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	at, err := h.Prints(ctx, offset, regexp.MustCompile("on\n"))
	if err != nil {
		t.Fatal(err)
	}
	return at
}

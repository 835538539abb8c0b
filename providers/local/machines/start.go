package machines

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"nstance.dev/protos/identity"
	"nstance.dev/providers/local/process"
	"nstance.dev/providers/local/store"
	"nstance.dev/server/driver"
)

// What user data is told besides: where the agent's binary is, and the address that its machine is
// said to have, where there are addresses.
const (
	envAgent   = "NSTANCE_AGENT"
	envAddress = "NSTANCE_MACHINE_ADDRESS"
)

// prologue is what a new process runs until it is known to be recorded. It
// waits for a line; the end of the pipe instead means that the server is gone,
// and then it ends without having done anything. Both times exec keeps the pid.
const prologue = `umask 077; read -r go && : >` + store.BootedFile + ` && exec /bin/sh "$0" </dev/null`

// start runs the user data of a machine that has no process. The caller holds
// its lock.
func (all *Machines) start(id identity.ID) error {
	cmd, release, err := all.spawn(id)
	if err != nil {
		return fmt.Errorf("start %s: %w", id, err)
	}
	defer release.Close()
	p, err := all.host.Identify(cmd.Process.Pid)
	all.watchEnd(id, p, cmd.Process)
	if err == nil {
		err = store.Record(all.store.Dir(id), p)
	}
	if err == nil {
		_, err = release.WriteString("\n")
	}
	if err != nil {
		return fmt.Errorf("start %s: %w", id, err) // the closed pipe ends the process
	}
	return nil
}

// spawn starts the process of a machine, which does nothing before it reads a
// line from the returned end of a pipe.
func (all *Machines) spawn(id identity.ID) (_ *exec.Cmd, release *os.File, err error) {
	dir := all.store.Dir(id)
	log, err := os.OpenFile(filepath.Join(dir, store.LogFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, nil, err
	}
	defer log.Close()
	gate, release, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer gate.Close()
	cmd := exec.Command("/bin/sh", "-c", prologue, filepath.Join(dir, store.UserDataFile))
	cmd.Dir = dir
	cmd.Env = all.environment(id)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = gate, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		_ = release.Close()
		return nil, nil, err
	}
	return cmd, release, nil
}

// environment is all that a machine learns from the server's. The rest may hold
// secrets, and a machine elsewhere would not have it either.
func (all *Machines) environment(id identity.ID) []string {
	dir := all.store.Dir(id)
	env := []string{
		"HOME=" + dir,
		identity.EnvMachineDir + "=" + dir,
		envAgent + "=" + all.opts.Agent,
		identity.EnvProvider + "=local",
		identity.EnvServerAddrFile + "=" + all.opts.LeaderFile,
	}
	if address := all.opts.addressOf(id); address.IsValid() {
		env = append(env, envAddress+"="+address.String())
	}
	for _, name := range []string{"PATH", "TMPDIR"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// watchEnd records how a child ended when it does, and reaps it then. The child exists at
// least until then, so its pid is its own.
func (all *Machines) watchEnd(id identity.ID, p process.ID, child *os.Process) {
	opened, err := process.OpenPID(child.Pid)
	_ = child.Release()
	if err != nil {
		all.opts.Log.Warn("cannot watch a machine's process", "pid", child.Pid, "error", err)
		return
	}
	if !all.background(func() {
		defer opened.Close()
		if opened.Ended(all.life) != nil {
			return
		}
		// An end that was asked for needs no reason, and its directory may be on its way out.
		if s, _, err := all.look(string(id)); err != nil || s.off || s.status() == driver.Failed {
			err = all.host.RecordExit(all.store.Dir(id), p)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				all.opts.Log.Warn("cannot record how a machine's process ended", "instance", id, "error", err)
			}
		}
		_ = opened.Reap()
	}) {
		opened.Close()
	}
}

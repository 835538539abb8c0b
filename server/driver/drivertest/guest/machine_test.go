package guest_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"nstance.dev/server/driver/drivertest/guest"
)

// ownerDir makes the test binary the owner of a machine in that directory, until it is killed.
const ownerDir = "GUEST_TEST_OWNER_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(ownerDir); dir != "" {
		own(dir)
	}
	goleak.VerifyTestMain(m)
}

func own(dir string) {
	b := newBox(nil, dir, script)
	if _, err := guest.Start(b.Options); err != nil {
		panic(err)
	}
	time.Sleep(time.Hour) // or until it is killed
}

// TestMachineEndsWithItsOwner kills the process that started a machine.
func TestMachineEndsWithItsOwner(t *testing.T) {
	b := newBox(t, t.TempDir(), script)
	owner := exec.Command(os.Args[0])
	owner.Env = append(os.Environ(), ownerDir+"="+b.Dir)
	if err := owner.Start(); err != nil {
		t.Fatal(err)
	}
	pid := b.service()
	if err := owner.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = owner.Wait() // killed is no success
	b.eventually("the service ends", func() bool { return !runs(pid) })
}

// service is a unit whose program notes when it begins and when it is asked to end.
const service = `[Service]
Environment="WHO=a service"
EnvironmentFile=/opt/nstance-agent/agent.env
EnvironmentFile=-/opt/nstance-agent/missing.env
ExecStart=/bin/sh /usr/local/bin/noting
Restart=always
`

const noting = `trap 'echo asked >> /opt/nstance-agent/notes; exit 0' TERM
echo "begun by $WHO for $WHOM" >> /opt/nstance-agent/notes
echo $$ > /opt/nstance-agent/pid
while :; do sleep 0.05; done
`

const script = `#!/bin/sh
set -eu
mkdir -p /opt/nstance-agent
echo "user data" >> /opt/nstance-agent/notes
echo 'WHOM=a friend = a "good" one' > /opt/nstance-agent/agent.env
systemctl enable --now noting
`

// box is a machine's directory and what it takes to look into it.
type box struct {
	t *testing.T
	guest.Options
}

func newBox(t *testing.T, dir, userData string) box {
	return box{t, guest.Options{
		Dir: dir, UserData: []byte(userData), Grace: time.Minute,
		Files: map[string]string{"/etc/systemd/system/noting.service": service, "/usr/local/bin/noting": noting},
	}}
}

func (b box) start() *guest.Machine {
	b.t.Helper()
	m, err := guest.Start(b.Options)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(m.Kill)
	return m
}

func (b box) read(path string) string {
	text, _ := os.ReadFile(filepath.Join(b.Dir, "root", path)) // a missing one is an empty one
	return string(text)
}

// await waits until a file of the machine has the content.
func (b box) await(path, want string) {
	b.t.Helper()
	b.eventually(path+" is "+strconv.Quote(want), func() bool { return b.read(path) == want })
}

func (b box) eventually(what string, holds func() bool) {
	b.t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			log, _ := os.ReadFile(filepath.Join(b.Dir, "log"))
			b.t.Fatalf("it never came true that %s; the machine's log:\n%s", what, log)
		}
	}
}

// service returns the process of the service.
func (b box) service() int {
	b.t.Helper()
	var pid int
	b.eventually("the service runs", func() bool {
		var err error
		pid, err = strconv.Atoi(strings.TrimSpace(b.read("/opt/nstance-agent/pid")))
		return err == nil
	})
	return pid
}

// runs reports whether a process does, and is no zombie.
func runs(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	_, after, _ := strings.Cut(string(stat), ") ")
	return err == nil && !strings.HasPrefix(after, "Z")
}

// ends waits until a process has ended whose machine has: its last open file, by which
// the machine knows, goes a moment before it.
func (b box) ends(pid int) {
	b.t.Helper()
	b.eventually("the service has ended with its machine", func() bool { return !runs(pid) })
}

const notes = "/opt/nstance-agent/notes"

func TestMachineStopsAndStartsAgain(t *testing.T) {
	b := newBox(t, t.TempDir(), script)
	m := b.start()
	const begun = "begun by a service for a friend = a \"good\" one\n"
	b.await(notes, "user data\n"+begun)
	first := b.service()
	m.Stop()
	if got := b.read(notes); got != "user data\n"+begun+"asked\n" {
		t.Errorf("after the stop: %q", got)
	}
	b.ends(first)
	m.Stop() // and again, which is nothing

	m = b.start()
	b.await(notes, "user data\n"+begun+"asked\n"+begun)
	m.Kill()
	b.ends(b.service())

	b.EveryBoot = true
	b.start()
	b.await(notes, "user data\n"+begun+"asked\n"+begun+"user data\n"+begun)
}

func TestServiceIsRestarted(t *testing.T) {
	b := newBox(t, t.TempDir(), script)
	b.start()
	first := b.service()
	if err := unix.Kill(first, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	b.eventually("the service was started again", func() bool {
		pid := b.service()
		return pid != first && runs(pid)
	})
}

// TestStubbornMachine has one that does not listen, and whose child does not either.
func TestStubbornMachine(t *testing.T) {
	b := newBox(t, t.TempDir(), `#!/bin/sh
mkdir -p /opt/nstance-agent
(trap '' TERM; echo $$ > /opt/nstance-agent/outer; while :; do sleep 1; done) &
trap '' TERM
sh -c 'trap "" TERM; echo $$ > /opt/nstance-agent/pid; while :; do sleep 1; done'
`)
	b.Grace = time.Millisecond
	m := b.start()
	pid := b.service()
	m.Stop()
	b.ends(pid)
}

// TestMachineIsPrivate looks at what the machine can see, and who can see the machine.
func TestMachineIsPrivate(t *testing.T) {
	b := newBox(t, t.TempDir(), "#!/bin/sh\nmkdir -p /etc/nstance\nenv > /etc/nstance/env\necho $GUEST_SECRET >> /etc/nstance/env\n")
	t.Setenv("GUEST_SECRET", "keys-of-a-cloud")
	b.Env = []string{"GREETING=hello you"}
	b.start()
	b.eventually("the environment was written", func() bool { return strings.Contains(b.read("/etc/nstance/env"), "GREETING=hello you\n") })
	if strings.Contains(b.read("/etc/nstance/env"), "keys-of-a-cloud") {
		t.Error("the machine sees what its cloud has in its environment")
	}
	err := filepath.Walk(b.Dir, func(path string, info os.FileInfo, err error) error {
		if err == nil && path != b.Dir && !strings.HasPrefix(path, filepath.Join(b.Dir, "root")) && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s is open to others: %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestCloudConfig(t *testing.T) {
	b := newBox(t, t.TempDir(), `#cloud-config
bootcmd:
  - mkdir -p /opt/nstance-agent; echo boot > /opt/nstance-agent/notes
write_files:
  - path: /opt/nstance-agent/notes
    append: true
    permissions: "0640"
    content: |
      file in /opt/nstance-agent/x, not in /opt/nstance-agent.d
  - path: /opt/nstance-agent/agent.env
    content: WHOM=us
runcmd:
  - [sh, -c, "echo run >> /opt/nstance-agent/notes"]
  - systemctl daemon-reload
  - systemctl enable --now noting.service
`)
	m := b.start()
	root := filepath.Join(b.Dir, "root")
	b.await(notes, "boot\nfile in "+root+"/opt/nstance-agent/x, not in /opt/nstance-agent.d\nrun\nbegun by a service for us\n")
	m.Stop()
}

func TestStartRefuses(t *testing.T) {
	for want, o := range map[string]guest.Options{
		"absolute":        {Dir: "relative", UserData: []byte("#!/bin/sh\n")},
		"must begin with": {Dir: t.TempDir(), UserData: []byte("MIME-Version: 1.0\n")},
		"absolute paths":  {Dir: t.TempDir(), Agent: "nstance-agent", UserData: []byte("#!/bin/sh\n")},
		"not a directory": {Dir: filepath.Join(os.Args[0], "below"), UserData: []byte("#!/bin/sh\n")},
	} {
		if m, err := guest.Start(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want an error that says %q", o, err, want)
			if m != nil {
				m.Kill()
			}
		}
	}
}

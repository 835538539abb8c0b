package hostvm

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// patience is how long a kernel has for its first word: with KVM that takes less than a second.
const patience = 10 * time.Second

// emulated translates the host's instructions, in half of the memory that QEMU would take for that.
const emulated = "tcg,thread=multi,tb-size=512"

// Accelerator returns the one of QEMU with which the kernel of an image runs here: kvm, or tcg, which
// does without any help of the box and is slow. A box may have /dev/kvm on which guests hang, so it is
// tried. Dir is for what that needs.
func Accelerator(ctx context.Context, image, dir string) string {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	console := filepath.Join(dir, "probe")
	probe := exec.CommandContext(ctx, "qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		"-accel", "kvm", "-cpu", "max", "-m", "512", "-kernel", filepath.Join(image, "vmlinuz"), "-append", "console=ttyS0 panic=-1",
		"-chardev", "file,id=console,path="+console, "-serial", "chardev:console")
	probe.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	// It ends by itself: there is no disk, so the kernel panics, and QEMU does not reboot it.
	if err := probe.Run(); err != nil {
		return emulated
	}
	if info, err := os.Stat(console); err != nil || info.Size() == 0 {
		return emulated
	}
	return "kvm"
}

package image

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
)

// ErrProgram is matched by errors about a program that would not run in its image.
var ErrProgram = errors.New("not a static program")

// machines are the processors that images can be made for, by what Go calls them.
var machines = map[string]elf.Machine{
	"amd64":   elf.EM_X86_64,
	"arm64":   elf.EM_AARCH64,
	"ppc64le": elf.EM_PPC64,
	"s390x":   elf.EM_S390,
}

// check returns an error if a program needs what its image does not have: another
// processor, or a loader and libraries.
func check(program []byte, arch string) error {
	machine, known := machines[arch]
	if !known {
		return fmt.Errorf("%w: the processor is not known", ErrProgram)
	}
	file, err := elf.NewFile(bytes.NewReader(program))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrProgram, err)
	}
	if file.Machine != machine {
		return fmt.Errorf("%w: it is for %s", ErrProgram, file.Machine)
	}
	for _, part := range file.Progs {
		if part.Type == elf.PT_INTERP {
			return fmt.Errorf("%w: it is linked with libraries; build it with CGO_ENABLED=0", ErrProgram)
		}
	}
	return nil
}

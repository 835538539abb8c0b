package machines

import (
	"fmt"
	"os"
)

// CheckAgent returns an error if the agent's binary cannot be run.
func CheckAgent(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("agent: %w; build it, or set \"agent\" to where it is", err)
	}
	if !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		return fmt.Errorf("agent: %s is not an executable file", path)
	}
	return nil
}

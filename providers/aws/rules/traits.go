package rules

import (
	"fmt"
	"strconv"

	"nstance.dev/server/driver"
)

// traits says what arguments tell of a machine. A market that is still a template is
// none of spot.
func traits(_ string, args map[string]any) driver.Traits {
	const name = "InstanceMarketOptions"
	read, err := reader{templates: true}.arg(name, args[name])
	market, _ := read.(map[string]any)
	return driver.Traits{Interruptible: err == nil && market["MarketType"] == "spot", DiskGiB: rootDisk(args)}
}

// rootDisk is the size of the first disk, in GiB; 0: the arguments do not say it.
func rootDisk(args map[string]any) int {
	const name = "BlockDeviceMappings"
	read, err := reader{templates: true}.arg(name, args[name])
	if err != nil {
		return 0
	}
	for _, m := range objects(map[string]any{name: read}, name) {
		disk, _ := m["Ebs"].(map[string]any)
		if size, err := strconv.Atoi(fmt.Sprint(disk["VolumeSize"])); err == nil {
			return size
		}
	}
	return 0
}

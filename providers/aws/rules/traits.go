package rules

import "nstance.dev/server/driver"

// traits says what arguments tell of a machine. A market that is still a template is
// none of spot.
func traits(_ string, args map[string]any) driver.Traits {
	const name = "InstanceMarketOptions"
	read, err := reader{templates: true}.arg(name, args[name])
	market, _ := read.(map[string]any)
	return driver.Traits{Interruptible: err == nil && market["MarketType"] == "spot"}
}

import Foundation

/// A repeatable random number generator: one seed gives the same values on every machine.
package struct SeededGenerator: RandomNumberGenerator {
    private var state: UInt64

    package init(seed: UInt64) {
        state = seed
    }

    /// SplitMix64.
    package mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }

    package mutating func chance(_ percent: Int) -> Bool {
        Int.random(in: 0..<100, using: &self) < percent
    }
}

/// The seed of this test run. Set `SUBLEDGER_TEST_SEED` to use another one.
package enum TestSeed {
    package static let value: UInt64 = {
        let seed = ProcessInfo.processInfo.environment["SUBLEDGER_TEST_SEED"].flatMap { UInt64($0) } ?? 20_180_220
        print("SUBLEDGER_TEST_SEED=\(seed)")
        return seed
    }()

    /// The generator for one story, so that a failing story can be repeated by its number.
    package static func generator(_ number: Int = 0) -> SeededGenerator {
        SeededGenerator(seed: value &+ UInt64(number) &* 0x0000_0001_0000_01B3)
    }
}

import Foundation

/// How much the tests do.
package enum TestScale {
    /// Whether everything is tested in full, as `deploy/test --all` does before a release. The normal run has less of what
    /// takes long, and the same kinds of it.
    package static let isFull = ProcessInfo.processInfo.environment["SUBLEDGER_TEST_ALL"] != nil

    /// A number of repetitions: of the normal run, and in full.
    package static func count(_ normal: Int, full: Int) -> Int { isFull ? full : normal }

    /// The number that a variable of the environment sets, or the usual one.
    package static func number(_ variable: String, _ usual: Int) -> Int {
        ProcessInfo.processInfo.environment[variable].flatMap { Int($0) } ?? usual
    }
}

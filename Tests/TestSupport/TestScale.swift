import Foundation

/// How much the tests do.
package enum TestScale {
    /// Whether everything is tested in full, as `deploy/test --all` does before a release. The normal run has less of what
    /// takes long, and the same kinds of it.
    package static let isFull = ProcessInfo.processInfo.environment["SUBLEDGER_TEST_ALL"] != nil

    /// A number of repetitions: of the normal run, and in full.
    package static func count(_ normal: Int, full: Int) -> Int { isFull ? full : normal }
}

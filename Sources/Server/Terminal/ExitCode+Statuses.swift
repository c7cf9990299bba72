import ArgumentParser

/// Exit statuses besides 0, 1 and 64 (usage), numbered as in sysexits.h, and by shells.
extension ExitCode {
    /// Invalid input.
    package static let dataError = ExitCode(65)
    /// A required resource is unavailable: the database, a port.
    package static let unavailable = ExitCode(69)
    /// An invalid setting.
    package static let configurationError = ExitCode(78)
    /// Ended by SIGINT or SIGTERM before it was finished, as shells report it.
    package static let interrupted = ExitCode(130)
}

import ArgumentParser
import EventLog
import Foundation
import HTTPServer
import Outbound
import Postgres
import Projector
import Verification

/// An error of a program's own, with the exit status of the command that it ends.
package protocol CommandError: Error {
    var exitCode: ExitCode { get }
}

/// What a command cannot do, as one line.
package struct CommandProblem: CommandError, CustomStringConvertible {
    package let description: String
    package let exitCode: ExitCode

    package init(_ description: String, _ exitCode: ExitCode = .dataError) {
        self.description = description
        self.exitCode = exitCode
    }
}

/// Runs a command. Prints an error as one line on stderr and throws the exit status of its kind.
///
/// - Parameter program: Its name, with which the line begins.
package func reportingFailures(of program: String = "subledger", _ command: () async throws -> Void) async throws {
    func fail(_ problem: String, _ code: ExitCode) -> ExitCode {
        printError("\(program): \(problem)")
        return code
    }
    do {
        try await command()
    } catch let error as ExitCode {
        throw error
    } catch let error as any CommandError {
        throw fail("\(error)", error.exitCode)
    } catch let error as SettingError {
        throw fail("\(error)", .configurationError)
    } catch let error as TLSFileError {
        throw fail("\(error)", .configurationError)
    } catch let error as EmbeddedServerError {
        throw fail("\(error)", .unavailable)
    } catch let error as PostgresError {
        throw fail("database: \(error.debugDescription)", .unavailable)
    } catch let error as ReadError {
        if case .damaged(let detail) = error { throw fail("\(detail)", .failure) }
        throw fail("\(error)", .unavailable)
    } catch let error as AppendError {
        throw fail("\(error)", .unavailable)
    } catch let error as MigrationError {
        throw fail("\(error)", .unavailable)
    } catch let error as DurabilityError {
        throw fail("\(error)", .configurationError)
    } catch let error as DistributionError {
        throw fail("\(error)", .configurationError)
    } catch let error as SkipRefusal {
        throw fail("\(error)", error == .rebuildRuns ? .unavailable : .dataError)
    } catch let error as TreeError {
        if case .database(let cause) = error { throw fail("database: \(cause.debugDescription)", .unavailable) }
        throw fail("\(error): see the runbook", .failure)
    } catch let error as EvidenceReader.Refusal {
        throw fail("\(error)", error.isDamage ? .failure : .dataError)
    } catch let error as BodyArchiver.Failure {
        throw fail("\(error)", error.exitCode)
    } catch let error as ArchiveError {
        throw fail("\(error)", error.exitCode)
    } catch let error as EndpointRefusal {
        throw fail("\(error)", error.exitCode)
    } catch let error as WebhookKeyFile.Problem {
        throw fail("\(error)", .configurationError)
    } catch let error as TokenRefusal {
        throw fail("\(error)", .dataError)
    } catch RebuildError.noStream {
        throw fail("\(RebuildError.noStream)", .dataError)
    } catch RebuildError.runsAlready {
        throw fail("\(RebuildError.runsAlready)", .unavailable)
    } catch let error as ListenError {
        throw fail("\(error)", .unavailable)
    } catch is CancellationError {
        throw fail("interrupted", .interrupted)
    } catch {
        throw fail("\(error)", .failure)
    }
}

extension BodyArchiver.Failure {
    fileprivate var exitCode: ExitCode {
        switch self {
        case .busy, .needed, .swept, .inUse: .unavailable
        case .monthNotOver: .validationFailure
        case .distributed, .folderIsOther: .configurationError
        case .damaged, .stray, .notArchived, .readBack: .dataError
        }
    }
}

extension ArchiveError {
    fileprivate var exitCode: ExitCode {
        switch problem {
        case .missing, .unreadable, .unwritable: .unavailable
        case .damaged, .other: .dataError
        }
    }
}

extension EndpointRefusal {
    fileprivate var exitCode: ExitCode {
        switch self {
        case .unknown, .unknownApp, .malformed, .full, .requestKeyUsed, .noSecret, .isForward: .dataError
        case .noKeyFile, .noKey, .keys: .configurationError
        case .database: .unavailable
        }
    }
}

/// Writes one line to stderr.
package func printError(_ line: String) {
    FileHandle.standardError.write(Data((line.split(whereSeparator: \.isNewline).joined(separator: " ") + "\n").utf8))
}

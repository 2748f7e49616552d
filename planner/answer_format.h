// The formats in which programs answer, and how --format names those of each answer.
#pragma once

#include <array>

#include "cost_model/text/named_values.h"

namespace ptdp {

/// The format of an answer: kText is for people, the others are for programs and pages.
enum class AnswerFormat { kText, kJson, kCsv, kMarkdown };

/// A name that --format takes, with the format it stands for. The first name of a list is the
/// default.
using FormatName = NamedValue<AnswerFormat>;

/// Formats of the plans of a search, and of strategies side by side.
inline constexpr std::array kPlanFormats = {FormatName{AnswerFormat::kText, "table"},
                                            FormatName{AnswerFormat::kJson, "json"},
                                            FormatName{AnswerFormat::kCsv, "csv"}};
/// Formats of one written plan, and of the shipped profiles.
inline constexpr std::array kTableFormats = {FormatName{AnswerFormat::kText, "table"},
                                             FormatName{AnswerFormat::kJson, "json"}};
/// Formats of layers per stage, and of a schedule by itself.
inline constexpr std::array kOrderFormats = {FormatName{AnswerFormat::kText, "text"},
                                             FormatName{AnswerFormat::kJson, "json"},
                                             FormatName{AnswerFormat::kCsv, "csv"}};
/// Formats of runs, rehearsals, tuning, profiles and simulated plans.
inline constexpr std::array kReportFormats = {FormatName{AnswerFormat::kText, "text"},
                                              FormatName{AnswerFormat::kJson, "json"}};
/// Formats of the errors of predictions (validation).
inline constexpr std::array kValidationFormats = {FormatName{AnswerFormat::kText, "table"},
                                                  FormatName{AnswerFormat::kJson, "json"},
                                                  FormatName{AnswerFormat::kMarkdown, "markdown"}};

}  // namespace ptdp
